"""Runs of earlier versions are read and reported as they were measured."""

from collections import Counter
from pathlib import Path

import pytest

import harness
from harness.claims import judge
from harness.measurements import Curve
from harness.store import RunDirectory

FIXTURES = Path(__file__).parent / "fixtures"
RUNS = sorted(path for path in FIXTURES.iterdir() if path.is_dir())


@pytest.mark.parametrize("run", RUNS, ids=[run.name for run in RUNS])
@pytest.mark.parametrize("format", ["text", "markdown", "latex", "csv", "json"])
def test_a_run_of_an_earlier_version_is_reported(run: Path, format: str) -> None:
    """Every record is read, and every format shows what was measured."""
    results = harness.load(run)
    assert len(results) == len(list((run / "records").glob("*.json")))
    assert {record.schema_version for record in results} == {1}
    text = results.render(format)  # type: ignore[arg-type]
    assert "accuracy" in text
    assert "recall" in text


def test_every_status_of_an_earlier_version_is_told() -> None:
    """With the reason and the error as they were written."""
    results = harness.load(FIXTURES / "run-schema-1-statuses")
    assert Counter(record.status for record in results) == {"ok": 1, "skipped": 1, "failed": 1}
    text = " ".join(str(results).split())
    assert "no attention: the model never calls scaled_dot_product_attention" in text
    assert "ValueError" in text
    assert "on purpose" in text


def test_numbers_and_claims_of_an_earlier_version_stay() -> None:
    """The curve as it is in the file; the claim as it was decided on it."""
    run = FIXTURES / "run-schema-1-suite"
    results, suite = harness.load(run), RunDirectory(run).read_suite()
    assert suite is not None
    reach = results.filter(probe="grad_reach:examples=8", stage="initial")
    curves = [record.find("cue_gradient") for record in reach]
    assert all(isinstance(curve, Curve) and curve.x == [1, 2, 5] for curve in curves)
    (claim,) = suite.claims
    verdict = judge(claim, results, range(3))
    assert verdict.verdict == "holds"
    for record, curve in zip(reach, curves, strict=True):
        assert isinstance(curve, Curve)
        assert verdict.numbers[record.seed][0] == pytest.approx(curve.y[2] / curve.y[0])
