"""Copying and reversing, the models of a source and a target, and their alignment."""

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from harness_plugins.models.seq2seq import Seq2seq
from harness_plugins.models.transformer import Transformer
from harness_plugins.probes.alignment import Alignment
from harness_plugins.probes.edge_cut import EdgeCut
from harness_plugins.probes.input_swap import input_swap
from harness_plugins.tasks.copying import Copy, Reverse
from torch import Tensor, nn

from harness import IGNORE, Interface, Matrix, Scalar, Skip, Subject, Task
from harness.attention import look
from harness.ledger.naming import ledger

LETTERS = 5
FACE = Interface(LETTERS + 1, LETTERS + 1, separator=LETTERS)
SMALL: dict[str, Any] = {"embedding": 3, "hidden": 4}
VARIANTS: list[dict[str, Any]] = [
    {"score": "none", "reversed": True},
    {"score": "additive", "cell": "gru", "bidirectional": True},
    {"score": "scaled", "values": "separate", "cell": "rnn", "reversed": True},
    {"score": "additive", "query": "before"},
    {"score": "general", "query": "before", "cell": "gru"},
]


def models() -> list[nn.Module]:
    torch.manual_seed(0)
    learned = Transformer(FACE, d_model=8, position="learned", max_length=12, norm="post")
    found = [*(Seq2seq(FACE, **SMALL, **each) for each in VARIANTS), Transformer(FACE, d_model=8), learned]
    return [model.double().eval() for model in found]


def subject(model: nn.Module, task: Task) -> Subject:
    return Subject(model.eval(), task, stage="trained", seed=0, device=torch.device("cpu"), examples=32)


# Tasks


@pytest.mark.parametrize("task", [Copy(lengths=[1, 3, 6], train_min=2, train_max=6), Reverse(letters=3)])
def test_answers_and_where_they_stand(task: Copy) -> None:
    """Every target is the token at its source, in the right order; nothing is padding."""
    backwards = isinstance(task, Reverse)
    training = islice(task.train(16, torch.Generator().manual_seed(0)), 20)
    tests = (task.evaluate(c, 16, torch.Generator().manual_seed(1)) for c in task.conditions())
    for batch in (*training, *tests):
        n = batch.tokens.shape[1] // 2
        assert batch.source is not None
        assert batch.mask.all()
        assert (batch.tokens[:, n] == task.letters).all()
        assert (batch.targets[:, :n] == IGNORE).all()
        answers = batch.tokens[:, :n].flip(1) if backwards else batch.tokens[:, :n]
        assert torch.equal(batch.targets[:, n:], answers)
        assert torch.equal(batch.tokens[:, n + 1 :], answers[:, :-1])
        assert torch.equal(batch.tokens.gather(1, batch.source[:, n:]), batch.targets[:, n:])


def test_strings_of_the_test_are_not_trained_on() -> None:
    """All strings of two letters occur, each on one side alone, and each letter as often as the others; those of
    validation, by which a way of training is chosen, are a side of their own."""
    task = Copy(train_min=2, train_max=2, lengths=[2])
    sides = []
    for batch in (
        next(task.train(20_000, torch.Generator().manual_seed(0))),
        next(task.validation(20_000, torch.Generator().manual_seed(0))),
        task.evaluate(task.conditions()[0], 20_000, torch.Generator().manual_seed(0)),
    ):
        sides.append({tuple(pair) for pair in batch.tokens[:, :2].tolist()})
        for column in (0, 1):
            often = batch.tokens[:, column].bincount(minlength=16)
            assert often.min() > 1000
    assert [*map(len, sides)] == [16 * 12, 16 * 2, 16 * 2]
    assert len(set.union(*sides)) == 16 * 16


def test_strings_of_one_letter_are_said_to_be_the_same() -> None:
    """Nothing can be kept apart there."""
    assert "one letter" in Copy(lengths=[1, 4]).notes[0]
    assert not Copy(lengths=[2, 4]).notes
    assert "validation" in Copy(lengths=[2, 4], letters=2).notes[0]
    assert Copy(letters=3).token_names(torch.tensor([2, 0, 3, 2])) == ["c", "a", "|", "c"]


# Models


Vector = list[float]


def times(layer: Any, x: Vector) -> Vector:
    """W x + b."""
    bias = [0.0] * len(layer.weight) if layer.bias is None else layer.bias.tolist()
    return [
        sum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in zip(layer.weight.tolist(), bias, strict=True)
    ]


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def step(rnn: Any, x: Vector, h: Vector) -> Vector:
    """tanh(W x + b + U h + c)."""
    w, u, b, c = (weights.tolist() for weights in rnn.all_weights[0])
    return [math.tanh(dot(w[i], x) + b[i] + dot(u[i], h) + c[i]) for i in range(len(h))]


def plainly(model: Any, source: Sequence[int], target: Sequence[int], score: str) -> tuple[list[Vector], list[Vector]]:
    """Logits and weights at each target token, number by number."""
    vectors = model.embedding.weight.tolist()
    h, encoded = [0.0] * SMALL["hidden"], []
    for token in source:
        h = step(model.encoder, vectors[token], h)
        encoded.append(h)
    attention = model.attention
    separate = attention is not None and not isinstance(attention.value, nn.Identity)
    logits, weights = [], []
    for token in target:
        query, x = h, vectors[token]
        found: Vector = []
        if not model.feeds_back:
            h = query = step(model.decoder, x, h)
        if attention is not None:
            scores = [scored(attention, score, query, key) for key in encoded]
            total = sum(map(math.exp, scores))
            shares = [math.exp(each) / total for each in scores]
            values = [times(attention.value, each) if separate else each for each in encoded]
            found = [sum(a * value[i] for a, value in zip(shares, values, strict=True)) for i in range(len(h))]
            weights.append(shares)
        if model.feeds_back:
            h = step(model.decoder, x + found, h)
        read = [math.tanh(each) for each in times(model.join, h + found)] if found else h
        logits.append(times(model.head, read))
    return logits, weights


def scored(attention: Any, score: str, q: Vector, k: Vector) -> float:
    key = k if isinstance(attention.key, nn.Identity) else times(attention.key, k)
    if score == "dot":
        return dot(q, key)
    query = times(attention.query, q)
    if score == "additive":
        return times(attention.weigh, [math.tanh(a + b) for a, b in zip(query, key, strict=True)])[0]
    return dot(query, key) / (math.sqrt(len(q)) if score == "scaled" else 1)


@pytest.mark.parametrize(
    "how",
    [
        {"score": "none"},
        {"score": "additive"},
        {"score": "dot"},
        {"score": "general"},
        {"score": "scaled"},
        {"score": "dot", "values": "separate"},
        {"score": "additive", "query": "before"},
    ],
    ids=lambda how: " ".join(how.values()),
)
def test_scores_are_those_of_the_formulas(how: dict[str, Any]) -> None:
    """Outputs and observed weights, against a computation without tensors."""
    torch.manual_seed(0)
    model: Any = Seq2seq(FACE, cell="rnn", **SMALL, **how).double().eval()
    tokens = torch.tensor([[3, 0, 4, 1, LETTERS, 2, 0], [1, 1, 0, 2, LETTERS, 4, 3]])
    with torch.no_grad():
        outputs, seen = model(tokens), look(model, tokens)
    assert not outputs[:, :4].any()
    for row in range(2):
        logits, weights = plainly(model, tokens[row, :4].tolist(), tokens[row, 4:].tolist(), how["score"])
        torch.testing.assert_close(outputs[row, 4:], torch.tensor(logits, dtype=torch.double), atol=1e-12, rtol=0)
        assert len(seen.patterns) == (how["score"] != "none")
        for pattern in seen.patterns:
            assert pattern.shape == (2, 1, 7, 7)
            assert not pattern[row, 0, 4:, 4:].any()
            found, expected = pattern[row, 0, 4:, :4], torch.tensor(weights, dtype=pattern.dtype)
            torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    "model", models(), ids=[*(" ".join(map(str, each.values())) for each in VARIANTS), "pre", "post"]
)
def test_sources_of_several_lengths_together(model: nn.Module) -> None:
    """Each sequence has the outputs that it has alone; also token by token, as one generates."""
    tokens = torch.tensor([[3, LETTERS, 0, 1, 2, 2], [4, 1, 0, LETTERS, 2, 0], [0, 1, 2, 3, 4, LETTERS]])
    together = model(tokens)
    together[:, -1].sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    with torch.no_grad():
        for row, start in enumerate((1, 3, 5)):
            alone = model(tokens[row : row + 1])
            torch.testing.assert_close(together[row : row + 1], alone, atol=1e-12, rtol=0)
            for end in range(start, 6):
                latest = model(tokens[row : row + 1, : end + 1])[:, -1]
                torch.testing.assert_close(latest, alone[:, end], atol=1e-12, rtol=0)


def test_patterns_of_a_ragged_batch_are_those_of_each_alone() -> None:
    """Also where the decoder looks step by step."""
    tokens = torch.tensor([[3, LETTERS, 0, 1, 2], [4, 1, 0, LETTERS, 2]])
    for model in models():
        together = look(model, tokens).patterns
        for row in range(2):
            for one, other in zip(together, look(model, tokens[row : row + 1]).patterns, strict=True):
                torch.testing.assert_close(one[row : row + 1], other, atol=1e-12, rtol=0)


@pytest.mark.parametrize("model", [models()[0], models()[3], models()[-1]], ids=["seq2seq", "by step", "transformer"])
def test_input_without_a_source_is_refused(model: nn.Module) -> None:
    """The sequence is named, and what it should be."""
    with pytest.raises(ValueError, match=r"sequence 1 of 2 has no separator \(token 5\)"):
        model(torch.tensor([[1, LETTERS, 2], [1, 2, 3]]))
    with pytest.raises(ValueError, match="sequence 0 of 1 has an empty source"):
        model(torch.tensor([[LETTERS, 1, 2]]))


def test_what_cannot_be_built_or_taken_is_refused() -> None:
    """No separator; more tokens than learned positions; arguments that do not go together."""
    with pytest.raises(ValueError, match="names no token between"):
        Seq2seq(Interface(5, 5))
    short = Transformer(FACE, d_model=8, position="learned", max_length=4)
    assert short.max_length == 4
    with pytest.raises(
        ValueError, match="5 tokens, source and target together, but there are learned positions for max"
    ):
        short(torch.tensor([[1, LETTERS, 2, 3, 1]]))
    refused: list[tuple[dict[str, Any], str]] = [
        ({"score": "none", "query": "before"}, "no attention"),
        ({"reversed": True, "bidirectional": True}, "leave reversed out"),
        ({"bidirectional": True, "hidden": 5}, "use hidden=6"),
    ]
    for wrong, words in refused:
        with pytest.raises(ValueError, match=words):
            Seq2seq(FACE, **wrong)


def test_a_model_of_a_source_is_counted_by_name() -> None:
    """With a source and a target, although nobody said where one ends."""
    assert ledger("seq2seq:score=none", length=8).growth == "linear"


# Alignment


class Points(nn.Module):
    """Looks from answer i at source token i, or `aside` positions beyond it, with all of its attention."""

    sees = "source"

    def __init__(self, separator: int, aside: int = 0) -> None:
        super().__init__()
        self.separator, self.aside = separator, aside

    def forward(self, tokens: Tensor) -> Tensor:
        time = tokens.shape[1]
        n = int((tokens[0] == self.separator).int().argmax())
        places = F.one_hot(torch.arange(time), time).float()
        wanted = (torch.arange(time) - n + self.aside).clamp(0, n - 1)
        q, k = (1e4 * places[wanted]).expand(len(tokens), 1, -1, -1), places.expand(len(tokens), 1, -1, -1)
        v = F.one_hot(tokens, self.separator + 1).float()[:, None]
        return F.scaled_dot_product_attention(q, k, v)[:, 0]


@pytest.mark.parametrize(
    ("task", "aside", "exact", "near"),
    [(Copy, 0, [1, 1], [1, 1]), (Copy, 1, [1 / 3, 1 / 6], [1, 1]), (Reverse, 0, [1 / 3, 0], [1 / 3, 1 / 3])],
)
def test_alignment_of_a_model_that_is_set_by_hand(
    task: type[Copy], aside: int, exact: list[float], near: list[float]
) -> None:
    """On the diagonal it is 1; beside it the largest weight is within one; on the other one it meets in the middle."""
    found = {each.name: each for each in Alignment()(subject(Points(16, aside), task(lengths=[3, 6])))}
    share, largest, beside = found["share_on_source"], found["exact"], found["within_one"]
    assert isinstance(share, Matrix)
    assert isinstance(largest, Matrix)
    assert isinstance(beside, Matrix)
    assert share.rows == ["layer 1 head 1", "uniform"]
    assert share.values[0] == pytest.approx(exact)
    assert share.values[1] == pytest.approx([1 / 3, 1 / 6])
    assert largest.values == [pytest.approx(exact)]
    assert beside.values == [pytest.approx(near)]
    best = found["best_head"]
    assert isinstance(best, Scalar)
    assert best.value == pytest.approx(exact[1])
    assert best.verdict == "layer 1 head 1"


def test_cuts_and_swaps_leave_the_separator() -> None:
    """Every length, also one letter, where the separator comes last; the recurrence lets the cut token through."""
    for model in (Seq2seq(Copy().interface), Transformer(Copy().interface)):
        looked_at = subject(model, Copy(lengths=[1, 2, 3]))
        found = {each.name: each for each in EdgeCut(examples=16)(looked_at)}
        leak = found["leak"]
        assert isinstance(leak, Scalar)
        assert leak.value > 0
        assert leak.verdict == "not proven"
        assert list(input_swap(looked_at))


def test_only_a_decoder_that_looks_step_by_step_offers_its_patterns() -> None:
    """All others are seen from outside, and can be cut; of these it is said why not."""
    assert [hasattr(model, "attention_patterns") for model in models()] == [False] * 3 + [True] * 2 + [False] * 2
    with pytest.raises(Skip, match=r"step by step .* no edge can be cut"):
        list(EdgeCut(examples=16)(subject(Seq2seq(Copy().interface, query="before"), Copy(lengths=[2, 3]))))
