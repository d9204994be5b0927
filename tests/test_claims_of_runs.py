"""What a run makes of claims that its records cannot answer."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from conftest import SHORT

from harness.cli import main
from harness.execution import execute
from harness.executors import Tell
from harness.executors.local import Local
from harness.plan import make_plan
from harness.registry import default_registry
from harness.schema import Record
from harness.suites import Suite
from harness.work import Work


def test_a_run_with_an_invalid_claim_is_no_success(tmp_path: Path) -> None:
    """A misspelt metric: exit code 1, with the claim and the measurements that there are; spelt right it is 0."""
    path = tmp_path / "claimed.toml"
    words = ["run", str(path), "--out", str(tmp_path / "run"), "--training", "steps=1", "--examples", "4"]
    codes = {}
    for metric in ("acuracy", "accuracy"):
        path.write_text(
            f'seeds = 1\n[[experiments]]\nmodels = ["lstm:hidden=2"]\ntasks = ["{SHORT}"]\n[[claims]]\n'
            f'text = "it recalls"\nprobe = "accuracy"\nmetric = "{metric}"\nat = "inside"\nreduce = "min"\n'
            'comparison = ">="\nvalue = 0.5\n',
            encoding="utf-8",
        )
        done = CliRunner().invoke(main, words, catch_exceptions=False)
        codes[metric] = done.exit_code
        if metric == "acuracy":
            assert done.stderr.startswith("Warning: the claim 'it recalls' cannot be read from lstm:hidden=2 on recall")
            for part in ("the claim 'it recalls' is invalid", "Did you mean 'accuracy'", "There are: accuracy"):
                assert part in done.stderr
    assert codes == {"acuracy": 1, "accuracy": 0}


def test_a_misspelt_claim_is_told_while_the_rest_is_measured(tmp_path: Path) -> None:
    """Once, at the first record that it speaks of; where that is there already, before anything is trained."""
    fields: dict[str, Any] = {"probe": "accuracy", "comparison": ">", "value": 0.5}
    other: dict[str, Any] = {"metric": "worst_inside", "value": None, "than": {"metric": "worst"}}
    asked: list[dict[str, Any]] = [{"metric": "acuracy"}, {"metric": "accuracy", "at": 7}, other]
    claims = [{**fields, "text": str(n), **each} for n, each in enumerate([*asked, {"metric": "worst_inside"}])]
    crossed = {"models": ["uniform", "best=lstm:hidden=2"], "tasks": [SHORT], "probes": ["accuracy"]}
    suite = Suite.model_validate({"name": "s", "experiments": [crossed], "claims": claims})
    events: list[str] = []

    def measured(works: Sequence[Work], tell: Tell) -> Iterator[Record]:
        for each in Local()(works, tell):
            events.append(f"{each.model.name} {each.seed}")
            yield each

    for seeds in (2, 3):
        few = suite.model_copy(update={"seeds": seeds})
        plan = make_plan(few, default_registry(), training={"steps": 1, "batch_size": 4})
        execute(plan, tmp_path / "run", executor=measured, warn=lambda text: events.append(text.partition(":")[0]))
    told = [f"the claim '{n}' cannot be read from best on {SHORT.partition(':')[0]}" for n in range(3)]
    assert events == ["uniform 0", "uniform 1", "lstm 0", *told, "lstm 1", *told, "uniform 2", "lstm 2"]
