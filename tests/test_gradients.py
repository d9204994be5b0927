"""Gradients with respect to input vectors: right however a model makes them, or the reason why not."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from harness_plugins.models.lstm import LSTM
from jaxtyping import Float
from torch import Tensor, nn

from harness import Batch, Skip
from harness.examples import seeded
from harness.gradients import InputGradients, input_gradients

WIDTH, CLASSES = 5, 7


def batch_of(tokens: Tensor) -> Batch:
    return Batch(tokens, tokens, torch.ones(tokens.shape[:2], dtype=torch.bool))


def sum_reader(look_up: Callable[["Summing", Tensor], Tensor]) -> "Summing":
    torch.manual_seed(0)
    return Summing(look_up).eval()


class Summing(nn.Module):
    """A readout of the sum of all vectors so far, which it gets in whatever way is given."""

    def __init__(self, look_up: Callable[["Summing", Tensor], Tensor]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CLASSES, WIDTH)
        self.positions = nn.Embedding(20, WIDTH)
        self.bag = nn.EmbeddingBag(CLASSES, WIDTH)
        self.table = nn.Parameter(torch.randn(CLASSES, WIDTH))
        self.head = nn.Linear(WIDTH, CLASSES)
        self.look_up = look_up

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.look_up(self, tokens).cumsum(1))
        return logits

    def expected(self, directions: Tensor) -> Float[Tensor, "batch time width"]:
        """By hand: a vector counts for its own position and all later ones."""
        later = directions.flip(1).cumsum(1).flip(1)
        return (later @ self.head.weight).detach().double()


def in_place(model: Summing, tokens: Tensor) -> Tensor:
    x: Tensor = model.embedding(tokens)
    x *= 8
    return x


def frozen(model: Summing, tokens: Tensor) -> Tensor:
    with torch.no_grad():
        x: Tensor = model.embedding(tokens)
    return x


WAYS: dict[str, tuple[Callable[[Summing, Tensor], Tensor], float]] = {
    "nn.Embedding": (lambda m, t: m.embedding(t), 1),
    "by keyword": (lambda m, t: m.embedding(input=t), 1),
    "changed in place": (in_place, 8),
    "read twice": (lambda m, t: m.embedding(t) + 2 * m.embedding(t), 3),
    "beside positions": (lambda m, t: m.embedding(t) + m.positions(torch.arange(t.shape[1])), 1),
    "nn.EmbeddingBag": (lambda m, t: m.bag(t.reshape(-1, 1)).view(*t.shape, WIDTH), 1),
    "F.embedding": (lambda m, t: F.embedding(t, m.table), 1),
    "dropped rows": (lambda m, t: F.embedding(t, F.dropout(m.table, 0.5, m.training)), 1),
    "table[tokens]": (lambda m, t: m.table[t], 1),
    "index_select": (lambda m, t: m.table.index_select(0, t.flatten()).view(*t.shape, WIDTH), 1),
    "without gradient": (frozen, 1),
    "time first": (lambda m, t: m.embedding(t.T).transpose(0, 1), 1),
    "time first, flat": (lambda m, t: m.embedding(t.T.flatten()).view(*t.T.shape, WIDTH).transpose(0, 1), 1),
}

BATCHES = {
    "as usual": torch.randint(CLASSES, (3, 5), generator=seeded("wide")),
    "as many examples as tokens": torch.randint(CLASSES, (4, 4), generator=seeded("square")),
    "all tokens alike": torch.zeros(4, 4, dtype=torch.long),
    "one example": torch.randint(CLASSES, (1, 6), generator=seeded("one")),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tokens", BATCHES.values(), ids=BATCHES)
def test_every_way_to_look_tokens_up_is_followed(way: str, tokens: Tensor) -> None:
    """With respect to what was looked up, for its example and its position, counted as often as it is read."""
    look_up, factor = WAYS[way]
    model = sum_reader(look_up)
    directions = torch.randn(*tokens.shape, CLASSES, generator=seeded("directions"))
    found = input_gradients(model, batch_of(tokens), directions)
    torch.testing.assert_close(found, factor * model.expected(directions), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("look_up", "reason"),
    [
        (lambda m, t: F.one_hot(t, CLASSES).float() @ m.table, "not found: it looks all tokens up at once neither by"),
        (lambda m, t: torch.stack([m.embedding(column) for column in t.unbind(1)], 1), "not found"),
        (lambda m, t: m.bag(t)[:, None].expand(-1, t.shape[1], -1), "not found"),
        (lambda m, t: m.embedding(t) + m.table[t], "2 tables of vectors are read with the tokens, where one is expect"),
    ],
)
def test_what_cannot_be_followed_is_skipped_with_the_reason(
    look_up: Callable[[Summing, Tensor], Tensor], reason: str
) -> None:
    """A product with one-hot tokens, token by token, a bag of them all, two tables."""
    tokens = BATCHES["as usual"]
    with pytest.raises(Skip, match=reason) as skipped:
        input_gradients(sum_reader(look_up), batch_of(tokens), torch.ones(*tokens.shape, CLASSES))
    assert "get_input_embeddings()" in str(skipped.value)


class Named(Summing):
    """Says itself which module makes its vectors: from one-hot tokens, time first or not."""

    def __init__(self, named: object, time_first: bool = False) -> None:
        super().__init__(Named.multiply)
        self.one_hot = nn.Linear(CLASSES, WIDTH)
        self.named = named
        self.time_first = time_first

    def multiply(self: Summing, tokens: Tensor) -> Tensor:
        assert isinstance(self, Named)
        read = F.one_hot(tokens, CLASSES).float()
        x: Tensor = self.one_hot(input=read.transpose(0, 1)).transpose(0, 1) if self.time_first else self.one_hot(read)
        return x

    def get_input_embeddings(self) -> object:
        return self.one_hot if self.named == "one_hot" else self.head if self.named == "head" else self.named


@pytest.mark.parametrize("time_first", [False, True])
@pytest.mark.parametrize("tokens", BATCHES.values(), ids=BATCHES)
def test_a_module_that_the_model_names_is_followed(tokens: Tensor, time_first: bool) -> None:
    """Also one that is no embedding, called by keyword and with time first."""
    torch.manual_seed(0)
    model = Named("one_hot", time_first).eval()
    directions = torch.randn(*tokens.shape, CLASSES, generator=seeded("directions"))
    found = input_gradients(model, batch_of(tokens), directions)
    torch.testing.assert_close(found, model.expected(directions), rtol=1e-5, atol=1e-5)
    assert not model.one_hot._forward_hooks


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("head", r"Linear, which get_input_embeddings\(\) returned, is not called with all tokens at once"),
        (torch.zeros(2), r"get_input_embeddings\(\) returned a Tensor; it should return the module"),
        ("nothing", r"get_input_embeddings\(\) returned a str"),
        (None, "not found"),
    ],
)
def test_a_wrong_name_is_a_reason_to_skip(named: object, reason: str) -> None:
    """A module that reads something else, no module, and none at all, where the look-up cannot be seen."""
    tokens = BATCHES["as usual"]
    with pytest.raises(Skip, match=reason):
        input_gradients(Named(named), batch_of(tokens), torch.ones(*tokens.shape, CLASSES))


def test_a_model_without_gradient_is_skipped() -> None:
    """One that computes under no_grad."""

    class Detached(Summing):
        @torch.no_grad()
        def forward(self, tokens: Tensor) -> Tensor:
            return super().forward(tokens)

    tokens = BATCHES["as usual"]
    with pytest.raises(Skip, match="carry no gradient"):
        input_gradients(Detached(lambda m, t: m.embedding(t)), batch_of(tokens), torch.ones(*tokens.shape, CLASSES))


def test_vector_input_may_be_changed_in_place() -> None:
    """Its gradient is that of what was given."""

    class Doubling(nn.Module):
        def forward(self, vectors: Tensor) -> Tensor:
            vectors *= 2
            return vectors

    vectors = torch.randn(2, 3, WIDTH)
    given = vectors.clone()
    found = input_gradients(Doubling(), batch_of(vectors), torch.ones(2, 3, WIDTH))
    assert found.eq(2).all()
    assert torch.equal(vectors, given)


def test_input_gradients_agree_with_finite_differences() -> None:
    """Of an LSTM in float64, for every number of every vector."""
    torch.manual_seed(0)
    model = LSTM(CLASSES, hidden=6, embedding=WIDTH).double().eval()
    tokens = torch.arange(6).reshape(2, 3)  # every token once, so that a row of the table is one vector
    directions = torch.randn(2, 3, CLASSES, dtype=torch.float64)
    found = input_gradients(model, batch_of(tokens), directions)
    table, step = model.embedding.weight.data, 1e-6
    with torch.no_grad():
        for example, time, place in torch.cartesian_prod(torch.arange(2), torch.arange(3), torch.arange(WIDTH)):
            number = table[tokens[example, time]]
            change = []
            for sign in (1, -1):
                number[place] += sign * step
                change.append((model(tokens) * directions).sum())
                number[place] -= sign * step
            assert found[example, time, place] == pytest.approx((change[0] - change[1]).item() / (2 * step), abs=1e-8)


class Powers(nn.Module):
    """h_t = f h_{t-1} + x_t in a number format: the gradient d steps back is f^d."""

    def __init__(self, factor: float, dtype: torch.dtype) -> None:
        super().__init__()
        self.factor = factor
        self.embedding = nn.Embedding(CLASSES, 1, dtype=dtype)

    def forward(self, tokens: Tensor) -> Tensor:
        states = [self.embedding(tokens)[:, 0]]
        for x in self.embedding(tokens).unbind(1)[1:]:
            states.append(self.factor * states[-1] + x)
        return torch.stack(states, 1)


@pytest.mark.parametrize(
    ("factor", "steps", "dtype"),
    [
        (2.0, 120, torch.float32),
        (2.0, 120, torch.bfloat16),
        (4.0, 100, torch.float32),
        (0.25, 100, torch.float32),
        (0.5, 200, torch.bfloat16),
        (2.0, 14, torch.float16),
        (0.5, 30, torch.float16),
        (0.5, 900, torch.float64),
    ],
)
def test_neither_large_nor_small_gradients_are_lost(factor: float, steps: int, dtype: torch.dtype) -> None:
    """In one pass, with the 1 of the last token: 2^200 is more than float32 holds, 2^-200 less."""
    model = Powers(factor, dtype)
    model.embedding.weight.data.zero_()
    tokens = torch.zeros(1, steps + 1, dtype=torch.long)
    gradients = InputGradients(model, batch_of(tokens), at=torch.tensor([steps]))
    found = gradients.along(torch.ones(1, 1)).squeeze()
    read = found[1:].log2()  # the first token is read twice
    torch.testing.assert_close(read, math.log2(factor) * torch.arange(steps - 1, -1, -1).double())


def test_below_the_smallest_size_nothing_is_promised() -> None:
    """What is lost is smaller than that; what is larger is kept."""
    tokens = torch.zeros(1, 200, dtype=torch.long)
    model = Powers(0.25, torch.float32)
    gradients = InputGradients(model, batch_of(tokens), at=torch.tensor([199]))
    found = gradients.along(torch.ones(1, 1)).squeeze()
    expected = 0.25 ** torch.arange(199, -1, -1).double()
    assert (found == 0).any()
    assert (expected[found == 0] < gradients.smallest).all()
    assert (found[expected > gradients.smallest] > 0).all()
