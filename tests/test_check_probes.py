"""Checks of probes catch what they are for, name it, and pass what is right."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from harness_plugins.tasks.copying import Copy

from harness import Curve, Matrix, Scalar, Skip, Subject
from harness.testing import PROBE_CHECKS, check_probe
from harness.testing.probes import probe_checker


def number(value: float = 1.0, **more: Any) -> Scalar:
    return Scalar(**{"name": "n", "unit": "share", "value": value, "headline": True, **more})


def curve(**more: Any) -> Curve:
    values = {"name": "c", "unit": "nats", "x": [1.0], "y": [1.0], "x_label": "x", "y_label": "y", "headline": True}
    return Curve(**{**values, **more})


def untyped(subject: Subject, width=3) -> Iterator[Scalar]:  # type: ignore[no-untyped-def]  # its mistake
    """Has an argument of any type."""
    yield number()


def without_documentation(subject: Subject) -> Iterator[Scalar]:
    yield number()


def unknown_need(subject: Subject) -> Iterator[Scalar]:
    """Asks for something that is no need."""
    yield number()


unknown_need.needs = ("atention",)  # type: ignore[attr-defined]  # how a function says so


def unknown_stage(subject: Subject) -> Iterator[Scalar]:
    """Looks at a stage that is none."""
    yield number()


unknown_stage.stages = ("before",)  # type: ignore[attr-defined]


def gives_nothing(subject: Subject) -> Iterator[Scalar]:
    """Yields nothing."""
    return iter(())


def gives_a_float(subject: Subject) -> Iterator[float]:
    """Yields a bare number."""
    yield 0.5


def gives_nan(subject: Subject) -> Iterator[Scalar]:
    """Yields nothing but NaN."""
    yield number(math.nan)


def raises(subject: Subject) -> Iterator[Scalar]:
    """Breaks."""
    raise OSError("no disk")


def named_twice(subject: Subject) -> Iterator[Scalar]:
    """Yields one name twice."""
    yield number()
    yield number(2.0)


def badly_named(subject: Subject) -> Iterator[Scalar]:
    """Yields a name with a slash."""
    yield number(name="loss/train")


def without_labels(subject: Subject) -> Iterator[Curve]:
    """Yields a curve over nobody knows what."""
    yield curve(x_label=" ")


def without_rows_and_columns(subject: Subject) -> Iterator[Matrix]:
    """Yields a matrix over nobody knows what."""
    yield Matrix(
        name="m", unit="", values=[[1.0]], rows=["a"], columns=["b"], row_label="", column_label="", headline=True
    )


def without_headline(subject: Subject) -> Iterator[Scalar]:
    """Yields what no summary shows."""
    yield number(headline=False)


def trains(subject: Subject) -> Iterator[Scalar]:
    """Changes a weight."""
    with torch.no_grad():
        next(iter(subject.model.parameters())).add_(1.0)
    yield number()


def leaves_gradients(subject: Subject) -> Iterator[Scalar]:
    """Calls backward()."""
    batch = subject.batch(subject.task.conditions()[0])
    subject.task.loss(subject.model(batch.tokens), batch).backward()
    yield number()


def leaves_training_mode(subject: Subject) -> Iterator[Scalar]:
    """Switches to training."""
    subject.model.train()
    yield number()


def leaves_a_hook(subject: Subject) -> Iterator[Scalar]:
    """Registers a hook and forgets it."""
    subject.model.register_forward_hook(lambda module, inputs, output: None)
    yield number()


def replaces_forward(subject: Subject) -> Iterator[Scalar]:
    """Puts its own forward in place of the model's."""
    forward = subject.model.forward
    subject.model.forward = lambda tokens: forward(tokens)
    yield number()


def writes_into_the_data(subject: Subject) -> Iterator[Scalar]:
    """Swaps the first token in place."""
    subject.batch(subject.task.conditions()[0]).tokens[:, 0] = 0
    yield number()


def draws_globally(subject: Subject) -> Iterator[Scalar]:
    """Takes random examples from the global state."""
    torch.randperm(8)
    yield number()


def draws_from_numpy(subject: Subject) -> Iterator[Scalar]:
    """The same, from numpy's."""
    np.random.rand()
    yield number()


def of_its_own_seed(subject: Subject) -> Iterator[Scalar]:
    """Takes numbers from where no seed reaches."""
    yield number(float(np.random.default_rng().random()))


def needs_attention_silently(subject: Subject) -> Iterator[Scalar]:
    """Takes for granted that there is attention."""
    from harness.attention import attention_patterns

    batch = subject.batch(subject.task.conditions()[0])
    yield number(attention_patterns(subject.model, batch.tokens)[0].max().item())


def moves_the_sources(subject: Subject) -> Iterator[Scalar]:
    """Writes into what only tasks of several questions have."""
    source = subject.batch(subject.task.conditions()[0]).source
    assert source is not None
    source[:] = 0
    yield number(0.5)


def needs_a_cue_silently(subject: Subject) -> Iterator[Scalar]:
    """Takes for granted that there is a cue."""
    yield number(subject.batch(subject.task.conditions()[0]).cue.double().mean().item())  # type: ignore[union-attr]


CAUGHT = [
    (untyped, "arguments", "no type is written at 'width'"),
    (unknown_need, "declares", "there is no need 'atention'. Did you mean 'attention'?"),
    (unknown_stage, "declares", "stages = ('before',); choose from initial, trained"),
    (without_documentation, "documented", "it has no docstring"),
    (gives_nothing, "measures", "it gives nothing; raise Skip with the reason instead"),
    (gives_a_float, "measures", "it gave 0.5; yield Scalar, Curve, Matrix or Pattern"),
    (gives_nan, "measures", "none of its numbers is finite"),
    (raises, "measures", "it raised OSError: no disk"),
    (named_twice, "labels", "the name n is given twice"),
    (badly_named, "labels", "the name 'loss/train'"),
    (without_labels, "labels", "the curve 'c' has an empty x_label or y_label"),
    (without_rows_and_columns, "labels", "the matrix 'm' says neither what its rows nor what its columns are"),
    (without_headline, "labels", "no measurement is a headline"),
    (trains, "model_untouched", "values of embedding.weight"),
    (leaves_gradients, "model_untouched", "gradient of embedding.weight"),
    (leaves_training_mode, "model_untouched", "mode of the model"),
    (leaves_a_hook, "model_untouched", "hooks of the model"),
    (replaces_forward, "model_untouched", "forward of the model"),
    (writes_into_the_data, "data_untouched", "it changes the data of the condition '1'"),
    (draws_globally, "random_state", "it draws from the global random state of torch"),
    (draws_from_numpy, "random_state", "it draws from the global random state of numpy"),
    (of_its_own_seed, "repeatable", "'n' has other numbers the second time"),
    (needs_attention_silently, "declines", "on a model without attention it raises IndexError"),
    (needs_a_cue_silently, "declines", "on a task with one length and no marks it raises AttributeError"),
]


@pytest.mark.parametrize(("probe", "name", "said"), CAUGHT, ids=[p.__name__ for p, _, _ in CAUGHT])
def test_a_wrong_probe_is_caught_by_the_check_for_it(probe: Callable[..., Any], name: str, said: str) -> None:
    """The message names what is wrong; consequence, place and fix are there."""
    result = probe_checker(probe).result(name)
    assert result.status == "failed", result
    assert said in result.message
    assert "means: " in str(result)
    assert "fix:   " in str(result)
    assert "test_check_probes.py:" in result.where


ALONE = (trains, leaves_a_hook, writes_into_the_data, draws_globally, of_its_own_seed, needs_attention_silently)


@pytest.mark.parametrize("probe", ALONE)
def test_one_mistake_is_one_failure(probe: Callable[..., Any]) -> None:
    """Everything else about these probes is in order, and no check says otherwise."""
    expected = next(name for wrong, name, _ in CAUGHT if wrong is probe)
    assert [result.check.name for result in check_probe(probe).failed] == [expected]


class Counting:
    """How many parameters the model has.

    Args:
        per: the unit.
    """

    stages = ("initial", "trained")

    def __init__(self, *, per: int = 1) -> None:
        self.per = per

    def __call__(self, subject: Subject) -> Iterator[Scalar]:
        yield number(sum(p.numel() for p in subject.model.parameters()) / self.per, unit="parameters")


def with_dropout(subject: Subject) -> Iterator[Scalar]:
    """Mean output in training mode, with the model and the random state put back."""
    batch = subject.batch(subject.task.conditions()[0])
    with torch.random.fork_rng():
        torch.manual_seed(subject.generator.initial_seed())
        subject.model.train()
        try:
            value = subject.forward(batch).mean().item()
        finally:
            subject.model.eval()
    yield number(value)


@pytest.mark.parametrize("probe", [Counting, with_dropout])
def test_a_right_probe_passes(probe: Callable[..., Any]) -> None:
    """A class or a function; what is changed and put back is no trace."""
    report = check_probe(probe)
    assert report.ok, str(report)
    assert all(result.status == "passed" for result in report.results)


def test_skipping_is_no_failure() -> None:
    """A probe for models with gates has nothing to say about the checks' own model; give it one."""

    def gates(subject: Subject) -> Iterator[Scalar]:
        """Mean update gate."""
        model: Any = subject.model
        if not hasattr(model, "gates"):
            raise Skip("no gates")
        yield number(model.gates)

    report = check_probe(gates)
    assert report.ok
    assert "no gates" in report["declines"].message
    assert "check_probe(probe, model=..., task=...)" in report["measures"].message
    gated: Any = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 9))
    gated.gates = 0.5
    assert check_probe(gates, model=gated)["measures"].status == "passed"


def test_every_check_of_a_probe_has_a_probe_that_fails_it() -> None:
    """A new check needs its own counterexample."""
    assert {check.name for check in PROBE_CHECKS} == {name for _, name, _ in CAUGHT}


def test_a_probe_leaves_all_of_a_batch_as_it_was() -> None:
    """Also where its questions have their sources, which the checks' own task does not say."""
    result = check_probe(moves_the_sources, task=Copy())["data_untouched"]
    assert result.status == "failed"
    assert "it changes the data of the condition" in result.message
