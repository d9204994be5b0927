"""What models write: greedy, sampled, with a state, with a cache; and the probe that reads it."""

import math
from collections.abc import Iterator
from typing import Any

import hf_models
import pytest
import torch
from harness_plugins.probes.own_outputs import OwnOutputs
from torch import Tensor, nn

from harness import IGNORE, Batch, Condition, Interface, Task, token_metrics
from harness.examples import seeded
from harness.generation import generate
from harness.measurements import Curve, Scalar
from harness.offers import OffersCache
from harness.subject import Subject

RING = 7


class Sums(nn.Module):
    """The next token is the sum of all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    def forward(self, tokens: Tensor) -> Tensor:
        self.read += tokens.numel()
        return nn.functional.one_hot(tokens.cumsum(1) % RING, RING).double()


class Steps(Sums):
    """Says so step by step."""

    def initial_state(self, batch_size: int) -> Tensor:
        return torch.zeros(batch_size, dtype=torch.long)

    def step(self, x: Tensor, state: Tensor) -> Any:
        self.read += x.numel()
        state = (state + x) % RING
        return nn.functional.one_hot(state, RING).double(), state, {}


class Keeps(Sums):
    """Keeps what it has read."""

    def go_on(self, tokens: Tensor, cache: Tensor | None) -> tuple[Tensor, Tensor]:
        self.read += tokens.numel()
        sums = tokens.cumsum(1) + (0 if cache is None else cache)
        return nn.functional.one_hot(sums % RING, RING).double(), sums[:, -1:]


PROMPT = torch.tensor([[1, 2], [0, 3], [4, 4]])


@pytest.mark.parametrize(("model", "read"), [(Sums(), 3 * (2 + 3 + 4 + 5)), (Steps(), 3 * 5), (Keeps(), 3 * 5)])
def test_the_likeliest_token_is_read_again(model: Sums, read: int) -> None:
    """By hand: the sum of 1, 2 is 3, with which it is 6, 12, 24; what offers a state or a cache reads each once."""
    assert generate(model, PROMPT, 4).tolist() == [[3, 6, 5, 3], [3, 6, 5, 3], [1, 2, 4, 1]]
    assert model.read == read


def test_a_text_ends_with_its_end() -> None:
    """And generation with the last one."""
    assert generate(Sums(), PROMPT, 9, end=6).tolist() == [
        [3, 6, 6, 6, 6, 6, 6, 6, 6],
        [3, 6, 6, 6, 6, 6, 6, 6, 6],
        [1, 2, 4, 1, 2, 4, 1, 2, 4],
    ]
    assert generate(Sums(), PROMPT[:2], 9, end=6).tolist() == [[3, 6], [3, 6]]
    assert generate(Sums(), PROMPT, 0).shape == (3, 0)


def test_tokens_are_drawn_as_likely_as_they_are() -> None:
    """Three to one at a temperature of 1, nine to one at a half; always the same by the same generator."""

    class Biased(nn.Module):
        def forward(self, tokens: Tensor) -> Tensor:
            return torch.tensor([3.0, 1.0]).log().expand(*tokens.shape, 2)

    prompt = torch.zeros(2000, 1, dtype=torch.long)
    for temperature, expected in ((1.0, 0.25), (0.5, 0.1)):
        drawn = generate(Biased(), prompt, 2, temperature=temperature, generator=seeded("draw"))
        assert drawn.double().mean().item() == pytest.approx(expected, abs=4 * (expected / 4000) ** 0.5)
        again = generate(Biased(), prompt, 2, temperature=temperature, generator=seeded("draw"))
        assert torch.equal(drawn, again)


class Limited(Sums):
    max_length = 5


class Sees(Sums):
    sees = "all"


@pytest.mark.parametrize(
    ("model", "prompt", "more", "said"),
    [
        (Limited(), PROMPT, {"steps": 5}, "7 tokens, and the model takes 5"),
        (Sees(), PROMPT, {}, "cannot write what follows"),
        (Sums(), PROMPT[:, :0], {}, "the prompt is empty"),
        (Sums(), PROMPT, {"temperature": -1.0}, "temperature = -1.0"),
        (Sums(), PROMPT, {"temperature": 1.0}, "give a generator"),
        (Sums(), PROMPT, {"steps": -1}, "steps = -1"),
    ],
)
def test_what_cannot_be_written_is_refused(model: nn.Module, prompt: Tensor, more: dict[str, Any], said: str) -> None:
    """With what was wrong. The last token of all is not read."""
    with pytest.raises(ValueError, match=said):
        generate(model, prompt, **{"steps": 2, **more})
    assert generate(Limited(), PROMPT, 4).shape == (3, 4)


@pytest.mark.parametrize(("architecture", "cached"), [("gpt2", True), ("llama", True), ("mamba", False)])
def test_a_cache_of_transformers_gives_what_reading_anew_gives(architecture: str, cached: bool) -> None:
    """Token by token, with positions that go on; one that gives something else is not used."""
    pytest.importorskip("transformers")
    from harness_plugins.models.hf import HF

    torch.manual_seed(0)
    model = HF(Interface(11, 11), config=architecture, **hf_models.SETTINGS[architecture]).double().eval()
    prompt = torch.randint(11, (3, 4), generator=seeded("prompt"))
    first = generate(model, prompt, 8)
    assert isinstance(model, OffersCache) == cached
    if isinstance(model, OffersCache):
        del model.go_on
    assert torch.equal(first, generate(model, prompt, 8))


class Ring(Task):
    """`s | s+1 s+2 ...`: from the separator on the next number is asked for."""

    interface = Interface(RING + 1, RING + 1, separator=RING)
    metrics = token_metrics(RING)
    fed = True

    def train(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        while True:
            yield self.evaluate(self.conditions()[0], batch_size, generator)

    def conditions(self) -> list[Condition]:
        return [Condition(4, inside=True), Condition(8, inside=False)]

    def evaluate(self, condition: Condition, examples: int, generator: torch.Generator) -> Batch:
        first = torch.randint(RING, (examples, 1), generator=generator)
        numbers = (first + torch.arange(1, int(condition.x) + 1)) % RING
        read = numbers[:, :-1] if self.fed else numbers[:, 1:]
        tokens = torch.cat([first, torch.full_like(first, RING), read], 1)
        targets = torch.cat([torch.full_like(first, IGNORE), numbers], 1)
        return Batch(tokens, targets, torch.ones_like(tokens, dtype=torch.bool))


class Counts(nn.Module):
    """Names the number after the last one; after the separator that after the source, and `off` more."""

    def __init__(self, off: int) -> None:
        super().__init__()
        self.off = off

    def forward(self, tokens: Tensor) -> Tensor:
        last = torch.where(tokens == RING, tokens.roll(1, 1) + self.off, tokens)
        return nn.functional.one_hot((last + 1) % RING, RING + 1).double()


def measured(model: nn.Module, task: Task) -> dict[str, Any]:
    device = torch.device("cpu")
    subject = Subject(model, task, stage="trained", seed=0, device=device, examples=300)
    found: list[Curve | Scalar] = list(OwnOutputs()(subject))
    return {each.name: each for each in found}


def test_one_mistake_at_the_start_is_all_wrong_when_it_is_read_again() -> None:
    """With teacher forcing it is one of four, one of eight."""
    found = measured(Counts(off=1), Ring())
    assert found["forced"].y == pytest.approx([3 / 4, 7 / 8])
    assert found["own"].y == [0, 0]
    assert found["own_exact"].y == found["forced_exact"].y == [0, 0]
    assert found["forced_by_step"].y == [0, 1, 1, 1]
    assert found["gap"].value == pytest.approx(3 / 4)
    assert found["gap"].verdict == "drifts"


def test_who_makes_no_mistake_holds() -> None:
    """There is nothing to lose."""
    found = measured(Counts(off=0), Ring())
    assert found["own"].y == found["forced"].y == found["own_exact"].y == [1, 1]
    assert (found["gap"].value, found["gap"].verdict) == (0, "holds")
    assert found["gap"].standard_error == pytest.approx(math.sqrt(2 / 130 / 129))  # among 128 examples


def test_what_is_no_number_is_not_right() -> None:
    """Outputs that are NaN at one length, as beyond the trained range, name no token: not even the first one."""

    class Short(Counts):
        def forward(self, tokens: Tensor) -> Tensor:
            return super().forward(tokens) * (1 if tokens.shape[1] < 8 else math.nan)

    found = measured(Short(off=0), Ring())
    for name in ("own", "forced", "own_exact", "forced_exact"):
        inside, beyond = found[name].y
        assert inside == 1
        assert math.isnan(beyond)


def test_where_outputs_are_not_read_again_nothing_is_measured() -> None:
    """A task whose targets are not the tokens that follow."""
    from harness import Skip

    task = Ring()
    task.fed = False
    with pytest.raises(Skip, match="not the tokens that follow"):
        measured(Counts(off=0), task)
