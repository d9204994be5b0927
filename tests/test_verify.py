"""`harness verify`: the laws put to models whose answers are known, and the guide to it."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from harness_plugins.models.attention_forms import AttentionForms
from harness_plugins.probes.laws.attention import AttentionLaws
from harness_plugins.probes.laws.softmax import SoftmaxLaws
from harness_plugins.tasks.noise import Noise
from law_cases import ALL, subject

from harness.cli import main
from harness.errors import RequestError
from harness.laws import Known, name_of
from harness.registry import default_registry
from harness.requests import find_suite
from harness.verifying import verify


def test_all_that_is_known_is_right() -> None:
    """The whole command, as data; every law applies somewhere."""
    result = CliRunner().invoke(main, ["verify", "--format", "json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [each for group in found for each in group["laws"] if not each["holds"]] == []
    put_to = {(group["group"], each["law"]) for group in found for each in group["laws"]}
    assert len(put_to) >= 35
    known = {law for probe in ALL for law in map(name_of, probe.laws)}
    assert known - {law for _, law in put_to} <= {"permutes with its input"}


def test_names_choose_groups_and_laws() -> None:
    assert {each.group for each in verify(["softmax_laws"])} == {"softmax_laws"}
    found = list(verify(["weights sum to one", "slopes_halve"]))
    laws = {law.name for each in found for law in each.judged}
    assert laws == {"weights sum to one", "slopes halve"}


@pytest.mark.parametrize(("name", "near"), [("attention_law", "attention_laws"), ("slope halves", "slopes halve")])
def test_unknown_names_are_refused(name: str, near: str) -> None:
    with pytest.raises(RequestError, match=f"Did you mean '{near}'"):
        verify([name])


def test_a_wrong_answer_ends_with_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AttentionForms, "forward", lambda self, x: x)
    asked = ["verify", "softmax_laws"]
    assert CliRunner().invoke(main, asked, catch_exceptions=False).exit_code == 1
    result = CliRunner().invoke(main, [*asked, "--format", "json"], catch_exceptions=False)
    assert result.exit_code == 1
    laws = {law["law"]: law for group in json.loads(result.stdout) for law in group["laws"]}
    assert laws["small scores"]["holds"] is False


def test_a_device_that_is_not_there_is_refused() -> None:
    result = CliRunner().invoke(main, ["verify", "--device", "cuda:99"])
    assert result.exit_code == 2
    assert "not available" in result.output


GUIDE = (Path(__file__).parent.parent / "docs" / "verify.md").read_text(encoding="utf-8")


def test_the_guide_tells_the_truth() -> None:
    """Its broken attention breaks what it says, its own law holds, and its commands and probes are there."""
    for words in re.findall(r"^    harness verify (.+?)(?:  +#.*)?$", GUIDE, flags=re.MULTILINE):
        names = shlex.split(words.split("--")[0])
        assert list(verify(names)) if names else True
    first, second = re.findall(r"```python\n(.+?)```", GUIDE, flags=re.DOTALL)
    mine: dict[str, Any] = {}
    exec(first, mine)
    judged = AttentionLaws().judged(subject(mine["Attention"](), Noise()))
    broken = ", ".join(each.name for each in judged if each.broken)
    assert f"breaks: {broken}" in " ".join(GUIDE.split())
    exec(second, mine)
    (zero,) = mine["ZeroLaws"]().judged(subject(AttentionForms(Noise().interface), Noise()))
    assert not zero.broken
    assert zero.says == "An input of zeros gives zeros."


def test_a_model_that_is_not_there_breaks_its_laws_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SoftmaxLaws, "known", (Known("atention_forms", "noise"), Known("attention_forms", "noise")))
    first, second = verify(["softmax_laws"])
    (judged,) = first.judged
    assert judged.broken
    assert "Did you mean 'attention_forms'" in judged.reason
    assert not any(each.broken for each in second.judged)


def test_the_suite_claims_what_the_laws_say() -> None:
    """Every law that a built-in model can be put to by name is claimed of one."""
    suite = find_suite("laws")
    claimed = {claim.probe.name for claim in suite.claims if claim.probe}
    assert claimed == {entry.spec.name for entry in default_registry().all("probe") if "_laws" in entry.spec.name}
    for claim in suite.claims:
        asked = [each for each in suite.experiments if claim.model in each.models and claim.probe in each.probes]
        assert asked, claim.text


def test_nothing_that_was_put_to_a_law_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.verifying._groups", lambda registry: [])
    done = CliRunner().invoke(main, ["verify"])
    assert done.exit_code == 2
    assert "no law was put to any model" in done.output


SUITE = """
name = "small"
seeds = 3

[[experiments]]
models = ["attention_forms"]
tasks = ["noise"]
probes = ["accuracy", "norm_laws"]

[[claims]]
text = "it is no identity"
model = "attention_forms"
probe = "accuracy"
metric = "error"
comparison = "{}"
value = 0.001
"""
NORMS = '"norm_laws"\nstage = "initial"\nmetric = "broken"\ncomparison = "<"'


def test_long_asks_that_every_claim_of_a_suite_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code 0 where they do, 1 where one does not, and where one is undecided, since its probe was skipped. What was
    measured is kept in the run directory."""
    suite, out = tmp_path / "known.toml", tmp_path / "run"
    monkeypatch.setattr("harness.known_answers.SUITE", str(suite))
    skipped = SUITE.format(">") + SUITE[SUITE.index("\n[[claims]]") :].format("<")
    skipped = skipped.replace('"accuracy"\nmetric = "error"\ncomparison = "<"', NORMS)
    verdicts = []
    for text in (SUITE.format(">"), SUITE.format("<"), skipped):
        suite.write_text(text, encoding="utf-8")
        asked = ["verify", "first position is all cosines", "--long", "--out", str(out), "--jobs", "1"]
        done = CliRunner().invoke(main, [*asked, "--format", "json"], catch_exceptions=False)
        laws, found = json.loads(done.stdout)
        assert laws["group"] == "position_laws"
        verdicts.append((done.exit_code, [claim["verdict"] for claim in found["claims"]]))
    assert verdicts == [(0, ["holds"]), (1, ["does not hold"]), (1, ["holds", "undecided"])]
    assert len(list((out / "records").iterdir())) == 6
    shown = CliRunner().invoke(main, asked, catch_exceptions=False)
    assert shown.exit_code == 1
    assert [word in shown.output for word in ("pass", "FAIL", "it is no identity", "1 law, 1 answer: all right")]


def test_what_is_wrong_with_long_is_told_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No such suite; one that claims nothing; and its options without it."""
    monkeypatch.setattr("harness.verifying._verified", None)
    suite = tmp_path / "known.toml"
    suite.write_text(SUITE[: SUITE.index("[[claims]]")], encoding="utf-8")
    for name, option, wrong in (
        (str(suite), "--long", "claims nothing"),
        ("no-such-suite", "--long", "no-such-suite"),
        (str(suite), "--jobs=2", "are for --long"),
    ):
        monkeypatch.setattr("harness.known_answers.SUITE", name)
        done = CliRunner().invoke(main, ["verify", option])
        assert done.exit_code == 2, done.output
        assert wrong in done.output
