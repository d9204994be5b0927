"""Examples that ask several questions, sequences of a source and a target, and models that see more than the past."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import harness
from harness import IGNORE, Batch, Condition, Interface, Task, token_metrics
from harness.needs import unfair
from harness.preflight import inspect
from harness.subject import Subject
from harness.testing import check_model, check_task
from harness.testing.results import CheckReport

LETTERS, SEPARATOR = 4, 4


class Echo(Task):
    """`a b c | a b`: after the separator the source again, from the separator on the next letter is asked for."""

    interface = Interface(LETTERS + 1, LETTERS + 1, separator=SEPARATOR)
    metrics = token_metrics(LETTERS)
    length = 3

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        while True:
            yield self.evaluate(self.conditions()[0], batch_size, generator)

    def conditions(self) -> list[Condition]:
        return [Condition(self.length, inside=True)]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        n = int(condition.x)
        letters = torch.randint(LETTERS, (examples, n), generator=generator)
        between = torch.full((examples, 1), SEPARATOR)
        tokens = torch.cat([letters, between, letters[:, :-1]], 1)
        targets, source = torch.full_like(tokens, IGNORE), torch.full_like(tokens, -1)
        targets[:, n:], source[:, n:] = letters, torch.arange(n)
        return Batch(tokens, targets, torch.ones_like(tokens, dtype=torch.bool), source=source)


class Copies(nn.Module):
    """Knows the answer: looks n + 1 positions back, where the source ends after n."""

    sees = "source"

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.size, self.scale = vocab_size, nn.Parameter(torch.tensor(9.0))

    def forward(self, tokens: Tensor) -> Tensor:
        n = (tokens == self.size - 1).int().argmax(1, keepdim=True)
        here = torch.arange(tokens.shape[1], device=tokens.device) - n
        found = tokens.gather(1, here.clamp(0).minimum(n - 1).clamp(0))
        return self.scale * nn.functional.one_hot(found, self.size).to(self.scale.dtype)


class Peeks(Copies):
    """Says so, and reads the target's last token besides."""

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens) + tokens[:, -1:, None].to(self.scale.dtype)


class Encodes(Copies):
    """Sees everything, and says so."""

    sees = "all"

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens) + tokens.double().mean(1)[:, None, None].to(self.scale.dtype)


class Claims(Encodes):
    """Sees everything, and says otherwise."""

    sees = "past"


def failures(report: CheckReport) -> dict[str, str]:
    return {result.check.name: result.message for result in report.results if result.status == "failed"}


def subject(model: nn.Module, task: Task) -> Subject:
    return Subject(model.eval(), task, stage="initial", seed=0, device=torch.device("cpu"), examples=64)


def test_each_example_is_asked_one_of_its_questions() -> None:
    """Each question of some example; a cue, a query and a target there alone; always the same one."""
    (condition,) = Echo().conditions()
    found = subject(Copies(5), Echo()).marked(condition)
    again = Echo().evaluate(condition, 64, torch.Generator().manual_seed(0)).asked()
    assert found is not None
    assert found.cue is not None
    assert found.query is not None
    assert again.query is not None
    assert torch.equal(found.query, again.query)
    assert set(found.query.tolist()) == {3, 4, 5}
    assert torch.equal(found.cue, found.query - 3)
    rows = torch.arange(64)
    assert torch.equal(found.targets[rows, found.query], found.tokens[rows, found.cue])
    assert (found.targets != IGNORE).sum(1).tolist() == [1] * 64
    few = found[:5].query
    assert few is not None
    assert torch.equal(few, found.query[:5])


def test_an_example_without_a_question_is_not_marked() -> None:
    """Nor does it change which question others are asked."""
    whole = Echo().evaluate(Echo().conditions()[0], 8, torch.Generator().manual_seed(0))
    assert whole.source is not None
    source = whole.source.clone()
    source[2] = -1
    found = Batch(whole.tokens, whole.targets, whole.mask, source=source).asked()
    assert found.marked.tolist() == [i != 2 for i in range(8)]
    expected = whole.asked().query
    assert expected is not None
    assert found.query is not None
    assert torch.equal(found.query[found.marked], expected[found.marked])


def test_scores_unless_the_task_says_otherwise() -> None:
    """Two of three right; all of none and of three; what has no target or is no number has no score."""
    targets = torch.tensor([[0, 1, 2], [IGNORE, 1, IGNORE], [IGNORE] * 3, [0, 1, 2]])
    answers = torch.tensor([[0, 1, 0], [3, 1, 3], [0, 0, 0], [0, 1, 2]])
    outputs = 30.0 * nn.functional.one_hot(answers, 5)
    outputs[3, 0, 0] = math.nan
    batch = Batch(answers, targets, torch.ones_like(answers, dtype=torch.bool))
    found = Echo().score(outputs, batch)
    assert found["accuracy"].tolist()[:2] == pytest.approx([2 / 3, 1])
    assert found["exact"].tolist()[:2] == [0, 1]
    assert found["loss"].tolist()[:2] == pytest.approx([10, 0], abs=1e-6)
    assert all(values[2:].isnan().all() for values in found.values())


def test_other_tokens_are_other_and_never_the_separator() -> None:
    """By one to one less than there are; as far as there are some."""
    face = Interface(6, 6, separator=2)
    ids = torch.tensor([0, 1, 3, 4, 5])
    moved = torch.stack([face.others(ids, by) for by in range(1, 5)])
    assert sorted(moved[:, 0].tolist()) == [1, 3, 4, 5]
    assert all(set(moved[:, i].tolist()) == {0, 1, 3, 4, 5} - {int(ids[i])} for i in range(5))
    drawn = face.draw(40, 9, torch.Generator().manual_seed(0))
    assert ((drawn == 2).nonzero()[:, 1] == 4).all()
    assert len(drawn.unique()) == 6
    assert face.draw(40, 2)[:, 1].eq(2).all()
    with pytest.raises(ValueError, match="give 2 or more"):
        face.draw(40, 1)


def test_the_task_and_honest_models_pass_the_checks() -> None:
    """Also a model that sees the target's past and all of the source."""
    assert failures(check_task(Echo)) == failures(check_model(Copies)) == failures(check_model(Encodes)) == {}


@pytest.mark.parametrize("model", [Peeks, Claims])
def test_who_sees_more_than_it_says_fails(model: type[nn.Module]) -> None:
    """By the check of causality, and before a run trains it."""
    assert "changing token 12 changes" in failures(check_model(model))["causal"]
    assert any("not causal" in said for said in inspect(subject(model(5), Echo())))


def test_what_is_wrong_with_a_source_is_said() -> None:
    """Of a task: no separator, an empty source, a source outside."""

    class Unseparated(Echo):
        def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
            batch = super().evaluate(condition, examples, generator)
            return batch.with_tokens(batch.tokens.clamp(max=SEPARATOR - 1))

    class Empty(Echo):
        def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
            batch = super().evaluate(condition, examples, generator)
            return batch.with_tokens(batch.tokens.roll(-3, 1))

    for task, name, words in ((Unseparated, "separator", "0 times"), (Empty, "separator", "its source is empty")):
        assert words in failures(check_task(task))[name]


def test_a_model_that_sees_the_source_is_not_asked_for_it() -> None:
    """A task of text asks for every next token, and those of the source stand in its input."""

    class Text(Echo):
        def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
            batch = super().evaluate(condition, examples, generator)
            targets = torch.cat([batch.tokens[:, 1:], batch.targets[:, -1:]], 1)
            return Batch(batch.tokens, targets, batch.mask)

    assert unfair(subject(Copies(LETTERS + 1), Echo())) == ""
    assert "the model sees the whole source" in unfair(subject(Copies(LETTERS + 1), Text()))
    assert "the model sees all tokens" in unfair(subject(Encodes(LETTERS + 1), Echo()))
    assert unfair(subject(Claims(LETTERS + 1), Text())) == ""


def test_tasks_that_a_model_cannot_face_are_skipped(tmp_path: Path) -> None:
    """With the reason: one that asks for the next token, and one without a source."""
    model = tmp_path / "models.py"
    lines = (
        "import torch",
        "class Encoder(torch.nn.Module):",
        "    sees = 'all'",
        "    def __init__(self, vocab_size: int) -> None:",
        "        super().__init__()",
        "        self.read, self.write = torch.nn.Embedding(vocab_size, 4), torch.nn.Linear(4, vocab_size)",
        "    def forward(self, tokens):",
        "        x = self.read(tokens)",
        "        return self.write(x + x.mean(1, keepdim=True))",
        "class Translator(Encoder):",
        "    sees = 'source'",
    )
    model.write_text("\n".join(lines), encoding="utf-8")
    results = harness.run(
        models=[f"{model}:Encoder", f"{model}:Translator"],
        tasks=["farm_agreement:sentences=100"],
        probes=["accuracy"],
        seeds=1,
        training={"steps": 1},
        out=tmp_path / "run",
    )
    reasons = {record.model.label.rpartition(":")[2]: record.reason or "" for record in results.records}
    assert [record.status for record in results.records] == ["skipped", "skipped"]
    assert "stands in its input" in reasons["Encoder"]
    assert "separates none" in reasons["Translator"]
