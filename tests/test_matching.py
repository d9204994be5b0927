"""What a claim means is one question: the plan, before anything runs, and the verdict on records answer it alike."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from conftest import SHORT
from record_factory import use

from harness.claims import judge
from harness.errors import RequestError
from harness.matching import matches
from harness.measurements import Scalar
from harness.plan import Plan, make_plan
from harness.registry import default_registry
from harness.schema import ModelUse, PluginUse, Provenance, Record, Timing
from harness.suites import Claim, Request, Suite

CODE = """
    import torch

    class Net(torch.nn.Module):
        def __init__(
            self, *, width: int = 4, rate: float = 1.0, name: str = "a", sizes: list[int] = [1, 2], tied: bool = True,
            limit: int | None = 3, position: str = "learned",
        ): ...
"""
SCORE = Scalar(name="score", unit="", value=1.0)
ORIGIN = Provenance(harness="0", python="3", torch="2", platform="", device="", threads=1, finished=datetime.now(UTC))


def records(plan: Plan) -> list[Record]:
    """As a run of the plan leaves them on disk."""
    written = [
        Record(
            id=cell.id,
            trial=cell.trial.id,
            status="ok",
            model=ModelUse(**cell.trial.model.model_dump()),
            **{name: getattr(cell.trial, name) for name in ("task", "training", "seed", "device", "pretrained")},
            **{name: getattr(cell, name) for name in ("probe", "stage", "examples")},
            measurements=[SCORE],
            timing=Timing(probe=0.0),
            provenance=ORIGIN,
        )
        for cell in plan.cells
    ]
    return [Record.model_validate_json(record.model_dump_json()) for record in written]


@pytest.fixture
def meant(plugin_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Whether plan and verdict take a claim about a model for one about what a suite crosses; they must agree."""
    folder = Path(plugin_file(CODE, "nets.py")).parent
    monkeypatch.chdir(folder)
    ours = default_registry().find("model", "lstm").origin.distribution

    def ask(asked: str | None, *crossed: str, **more: object) -> bool:
        words = {"folder": folder, "ours": ours, "OURS": ours.upper().replace("-", "_")}
        asked = None if asked is None else asked.format_map(words)
        models = [each.format_map(words) for each in crossed]
        claim = {"text": "c", "metric": "score", "probe": "accuracy", "comparison": ">", "value": 0.5, "model": asked}
        suite = {"experiments": [{"models": models, "tasks": [SHORT]}]}
        made = records(make_plan(Suite.model_validate(suite), default_registry()))
        judged = bool(judge(Claim.model_validate(claim | more), made).numbers)
        try:
            make_plan(Suite.model_validate(suite | {"claims": [claim | more]}), default_registry())
        except RequestError:
            assert not judged
            return False
        assert judged
        return True

    return ask


@pytest.mark.parametrize(
    ("asked", "crossed", "expected"),
    [
        ("lstm", "lstm", True),
        ("lstm", "lstm:hidden=8", False),
        ("lstm:hidden=8", "lstm:hidden=8", True),
        ("lstm:hidden=8.0", "lstm:hidden=8", True),
        ("lstm:hidden=64", "lstm", True),
        ("lstm", "lstm:hidden=64", True),
        ("{ours}:lstm", "lstm", True),
        ("{OURS}:lstm", "lstm", True),
        ("small", "small=lstm:hidden=8", True),
        ("lstm:hidden=8", "small=lstm:hidden=8", True),
        ("small:hidden=8", "small=lstm:hidden=8", False),
        ("lstn", "lstm", False),
        ("lstm:hiden=8", "lstm:hidden=8", False),
        (None, "lstm", True),
        ("gpt:position=none", "gpt:position=none", True),
        ("gpt", "gpt:position=none", False),
        ("./nets.py:Net", "./nets.py:Net", True),
        ("nets.py:Net", "./nets.py:Net", True),
        ("{folder}/nets.py:Net:width=4", "./nets.py:Net", True),
        ("{folder}/other.py:Net", "./nets.py:Net", False),
        ("./nets.py:Net:width=8", "{folder}/nets.py:Net:width=8", True),
        ('./nets.py:Net:width="8"', "./nets.py:Net:width=8", True),
        ("./nets.py:Net:rate=1", "./nets.py:Net", True),
        ("./nets.py:Net:name=7", './nets.py:Net:name="7"', True),
        ("./nets.py:Net:sizes=[1,2]", "./nets.py:Net", True),
        ("./nets.py:Net:sizes=[1,3]", "./nets.py:Net:sizes=[1,2]", False),
        ("./nets.py:Net:tied=yes", "./nets.py:Net", True),
        ("./nets.py:Net:tied=0", "./nets.py:Net:tied=false", True),
        ("./nets.py:Net:limit=none", "./nets.py:Net:limit=none", True),
        ("./nets.py:Net:limit=None", "./nets.py:Net:limit=NONE", True),
        ("./nets.py:Net:limit=none", "./nets.py:Net", False),
        ("./nets.py:Net:position=none", "./nets.py:Net:position=none", True),
    ],
)
def test_plan_and_verdict_agree(meant: Callable[..., bool], asked: str | None, crossed: str, expected: bool) -> None:
    """Aliases, qualified names, paths of one file, defaults that are written out, values as text, and `none`."""
    assert meant(asked, crossed) is expected


def test_they_agree_where_several_could_be_meant(meant: Callable[..., bool]) -> None:
    """A claim that names no model is about the only one there is."""
    assert not meant(None, "lstm", "gru")
    assert meant("gru", "lstm", "gru")


@pytest.mark.parametrize(
    ("training", "expected"),
    [({}, True), ({"steps": 1000}, True), ({"lr": "3e-3"}, True), ({"lr": 1}, False), ({"patience": "none"}, True)],
)
def test_they_agree_on_training(meant: Callable[..., bool], training: dict[str, object], expected: bool) -> None:
    """Settings are read as when a model is trained with them."""
    assert meant("lstm", "lstm", training=training) is expected


DEFAULTS = {"layers": 2, "position": "learned", "limit": None, "shape": [1, 2], "tied": True}


@pytest.mark.parametrize(
    ("request_", "label", "expected"),
    [
        ("gpt", "gpt", True),
        ("gpt", "gru", False),
        ("gpt", "gpt:layers=4", False),
        ("gpt:layers=4", "gpt:layers=4", True),
        ("gpt:layers=2", "gpt", True),
        ("gpt:layers=2.0", "gpt", True),
        ("gpt:layers=4", "gpt", False),
        ("gpt:layers=4", "gpt:layers=4,position=none", False),
        ("gpt:position=none,layers=4", "gpt:layers=4,position=none", True),
        ("gpt:limit=none", "gpt", True),
        ("gpt:shape=[1,2]", "gpt", True),
        ("gpt:shape=[1,3]", "gpt", False),
        ("gpt:tied=true", "gpt", True),
        ("gpt:tied=1", "gpt", True),
        ("gpt:unknown=1", "gpt", False),
        ("acme-nets:gpt", "gpt", True),
        ("acme_nets:gpt:layers=4", "gpt:layers=4", True),
        ("other:gpt", "gpt", False),
        (None, "gpt:layers=4", True),
    ],
)
def test_matching(request_: str | None, label: str, expected: bool) -> None:
    """By name, by every argument that is asked for, and with no other argument that was changed."""
    used = PluginUse(**use(label, DEFAULTS, distribution="acme-nets"))
    request = None if request_ is None else Request.model_validate(request_)
    assert matches(request, used) is expected
