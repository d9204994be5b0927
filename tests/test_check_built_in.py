"""The built-in models, tasks and probes pass their own checks."""

import pytest

from harness.registry import Entry, default_registry
from harness.suites import Request
from harness.targets import load_definition
from harness.testing import check_model
from harness.testing.installed import check_one, why_not_built

BUILT_IN = [(kind, entry) for kind in ("model", "task", "probe") for entry in default_registry().all(kind)]


@pytest.mark.parametrize(("kind", "entry"), BUILT_IN, ids=lambda each: getattr(each, "qualified", each))
def test_built_in_plugins_pass(kind: str, entry: Entry) -> None:
    """Whatever is registered, except what cannot be built without arguments."""
    if reason := why_not_built(load_definition(entry), Request(name=entry.spec.name)):
        pytest.skip(reason)
    report = check_one(default_registry(), kind, entry.qualified)
    assert report.ok, str(report)
    assert len(report.results) > 1


VARIANTS = [
    "gpt:position=rope",
    "gpt:position=alibi,norm=post,tied=false,dropout=0.1",
    "lstm:layers=2",
    "lstm:layers=2,peephole=true,dropout=0.1",
    "gru:layers=2,reset=before",
    "elman:layers=2,activation=identity,orthogonal=true,biases=1",
]


@pytest.mark.parametrize("request_", VARIANTS)
def test_variants_of_built_in_models_pass(request_: str) -> None:
    """Other paths through the same code."""
    assert Request.model_validate(request_).arguments
    report = check_model(request_)
    assert report.ok, str(report)


def test_the_bidirectional_lstm_is_caught_and_named() -> None:
    """The built-in variant that sees the future, by its own name."""
    (failed,) = check_model("lstm:bidirectional=true").failed
    assert failed.check.name == "causal"
    assert "`rnn`, an nn.LSTM with bidirectional=True" in failed.message
    assert "lstm.py:" in failed.where
