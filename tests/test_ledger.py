"""Parameters, operations, memory and order of steps: counted from outside, equal to what formulas give."""

import json
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from click.testing import CliRunner
from torch import Tensor, nn

import harness
from harness import Interface
from harness.cli import main
from harness.errors import RequestError
from harness.ledger import Ledger, count_costs, ledger
from harness.measurements import Matrix, Scalar

WORDS = Interface(64, 64)


@pytest.mark.parametrize(
    ("model", "vocabulary", "length", "parameters"),
    [
        ("gpt:d_model=64,heads=2,layers=2,max_length=15", 64, 15, 105_152),
        ("gpt:d_model=768,heads=12,layers=12,max_length=1024", 50_257, 8, 124_439_808),
        pytest.param(
            "gpt:d_model=1024,heads=16,layers=24,max_length=1024", 50_257, 8, 354_823_168, marks=pytest.mark.slow
        ),
        pytest.param(
            "gpt:d_model=1600,heads=25,layers=48,max_length=1024", 50_257, 8, 1_557_611_200, marks=pytest.mark.slow
        ),
    ],
)
def test_published_sizes_are_counted_without_memory_for_their_weights(
    model: str, vocabulary: int, length: int, parameters: int
) -> None:
    found = ledger(model, length=length, vocabulary=vocabulary)
    assert sum(found.parameters.values()) == parameters
    assert found.parameters["feed-forward"] == pytest.approx(2 * found.parameters["attention"], rel=0.01)


@pytest.mark.parametrize(("model", "parameters"), [("elman", 60_400), ("lstm", 241_600)])
def test_recurrent_layers_are_counted(model: str, parameters: int) -> None:
    found = ledger(f"{model}:embedding=100,hidden=200", length=4)
    assert found.parameters["recurrence"] == parameters


class PositionsAndTokens(nn.Module):
    """A net of positions, whose inputs need no gradient, beside the embedding of the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 8)
        self.of_positions = nn.Sequential(nn.Linear(1, 16), nn.Linear(16, 8))
        self.mixed = nn.Linear(8, 8)
        self.out = nn.Linear(8, 64)

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], dtype=torch.float32, device=tokens.device)
        logits: Tensor = self.out(self.mixed(self.embedding(tokens)) * self.of_positions(positions[:, None]))
        return logits


def test_a_net_of_positions_is_not_given_what_others_do() -> None:
    found = count_costs(PositionsAndTokens(), WORDS, 4)
    assert found.forward["feed-forward"] == 2 * 4 * (1 * 16 + 16 * 8 + 8 * 8)
    assert found.forward["output"] == 2 * 4 * 8 * 64
    of_constants = 2 * 4 * 16  # nothing asks for the gradient of positions
    assert found.training["feed-forward"] == 3 * found.forward["feed-forward"] - of_constants
    assert found.training["output"] == 3 * found.forward["output"]


@pytest.mark.parametrize(("heads", "length"), [(1, 20), (4, 500)])
def test_operations_of_a_transformer_are_those_of_the_formula(heads: int, length: int) -> None:
    d, layers = 32, 3
    found = ledger(f"gpt:d_model={d},heads={heads},layers={layers},max_length=512", length=length, vocabulary=100)
    assert found.forward["attention"] == layers * 8 * length * d**2
    assert found.forward["feed-forward"] == layers * 16 * length * d**2
    assert found.forward["mixing"] == layers * 4 * length**2 * d
    assert found.forward["output"] == 2 * length * d * 100
    assert found.training == {part: 3 * operations for part, operations in found.forward.items()}
    assert found.cache_bytes == layers * 2 * length * d * 4
    assert (found.state_bytes, found.growth) == (0, "constant")


@pytest.mark.parametrize(("model", "gates", "states"), [("elman", 1, 1), ("gru", 3, 1), ("lstm", 4, 2)])
def test_operations_of_a_recurrent_net_are_those_of_the_formula(model: str, gates: int, states: int) -> None:
    found = ledger(f"{model}:embedding=10,hidden=20,layers=2", length=300, vocabulary=50)
    assert found.forward["recurrence"] == 2 * 300 * gates * 20 * ((10 + 20) + (20 + 20))
    assert found.forward["output"] == 2 * 300 * 20 * 50
    assert found.exponent == pytest.approx(1)
    assert found.state_bytes == 2 * states * 20 * 4
    assert (found.cache_bytes, found.growth) == (0, "linear")


@pytest.mark.parametrize(
    ("by_hand", "fused"),
    [("gru:reset=before", "gru"), ("lstm:peephole=true", "lstm"), ("elman:activation=identity", "elman")],
)
def test_a_state_that_is_offered_is_counted_like_any(by_hand: str, fused: str) -> None:
    one, other = ledger(by_hand, length=8), ledger(fused, length=8)
    assert one.state_bytes == other.state_bytes > 0
    assert one.parameters["recurrence"] > 0 == one.parameters["other"]


def test_a_short_model_is_not_judged_by_lengths_that_it_does_not_take() -> None:
    found = ledger("gpt:max_length=20", length=20)
    assert found.chain_lengths == (10, 20)
    assert found.growth == "constant"
    assert ledger("gpt:max_length=2", length=2).growth == "other"


@pytest.mark.parametrize("model", ["transformer", "seq2seq"])
def test_a_source_and_its_separator_are_the_least(model: str) -> None:
    found = ledger(model, length=3)
    assert math.isnan(found.exponent)
    with pytest.raises(RequestError, match="give 2 or more"):
        ledger(model, length=1)


def test_attention_takes_a_quarter_of_the_work_where_it_is_said_to() -> None:
    found = ledger("gpt:d_model=4096,heads=32,layers=1,position=rope", length=8192, vocabulary=2)
    layer = {part: found.forward[part] for part in ("attention", "mixing", "feed-forward")}
    assert layer["mixing"] / sum(layer.values()) == pytest.approx(0.25)


class Foreign(nn.Module):
    """PyTorch's own layers, a convolution of each channel by itself, and positions that are a bare parameter."""

    def __init__(self, vocab: int = 64, width: int = 16) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab, width)
        self.position = nn.Parameter(torch.zeros(128, width))
        self.mix = nn.Conv1d(width, width, 4, groups=width)
        self.block = nn.TransformerEncoderLayer(width, 2, 32, batch_first=True)
        self.read = nn.Linear(width, vocab)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.position[: tokens.shape[1]]
        x = self.mix(F.pad(x.mT, (3, 0))).mT
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        y: Tensor = self.read(self.block(x, src_mask=mask, is_causal=True))
        return y


def test_parts_of_a_model_that_was_not_written_for_it() -> None:
    found = count_costs(Foreign().eval(), WORDS, 40)
    assert found.parameters == {
        "embedding": 64 * 16 + 128 * 16,
        "attention": 4 * (16 * 16 + 16),
        "mixing": 0,
        "recurrence": 0,
        "mixer": 4 * 16 + 16,
        "feed-forward": (16 * 32 + 32) + (32 * 16 + 16),
        "norm": 2 * 2 * 16,
        "output": 16 * 64 + 64,
        "other": 0,
    }
    assert found.forward["mixer"] == 2 * 40 * 4 * 16
    assert found.forward["feed-forward"] == 2 * 40 * 2 * 16 * 32
    assert found.training["feed-forward"] == 3 * found.forward["feed-forward"]
    assert found.forward["mixing"] == 4 * 40**2 * 16
    assert found.cache_bytes == 2 * 40 * 16 * 4


@pytest.mark.parametrize(
    ("model", "part", "parameters"),
    [
        ("hyena", "mixer", 96 * 33 + 96 * 3 + (32 * 18 + 32 * 33 + 32 * 33) + 32 + 32 * 33),
        ("window_attention", "attention", 4 * 32 * 32),
        ("delta_net", "recurrence", 4 * 32 * 32 + 2 * 33 + 16),
    ],
)
def test_mixers_are_told_from_the_nets_behind_them_and_from_the_output(model: str, part: str, parameters: int) -> None:
    """Also the short convolution before a mixer, and an output layer of its own."""
    net = 32 * 64 + 64 + 64 * 32 + 32
    found = ledger(f"{model}:layers=1,short=4,tied=false", length=8, vocabulary=100)
    expected = {"embedding": 3200, part: parameters, "mixer": 4 * 32, "feed-forward": net, "norm": 96, "output": 3200}
    expected["mixer"] += parameters if part == "mixer" else 0
    assert {each: number for each, number in found.parameters.items() if number} == expected
    assert found.forward["feed-forward"] == 2 * 8 * 2 * 32 * 64
    assert found.forward["output"] == 2 * 8 * 3200
    assert found.forward["mixer"] >= 2 * 8 * 4 * 32


class TokenMixer(nn.Module):
    """Holds what it mixes with, or mixes by itself."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.out = inner, nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.inner(x)
        y: Tensor = self.out(inner[0] if isinstance(inner, tuple) else inner)
        return y.cumsum(1)


@pytest.mark.parametrize(
    ("inner", "part"), [(nn.LSTM(8, 8, batch_first=True), "recurrence"), (nn.Linear(8, 8), "mixer")]
)
def test_a_mixer_is_told_by_its_name_unless_it_holds_something_better_known(inner: nn.Module, part: str) -> None:
    stack = nn.Sequential(nn.Embedding(64, 8), TokenMixer(inner), nn.Linear(8, 64))
    found = count_costs(stack, WORDS, 4)
    numbers = sum(each.numel() for each in inner.parameters())
    assert found.parameters[part] == numbers + (8 * 9 if part == "mixer" else 0)
    assert found.parameters["feed-forward"] == (0 if part == "mixer" else 8 * 9)


class Chunks(nn.Module):
    """Works on chunks of 16 tokens: its work is no polynomial of the length."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(64, 16)
        self.read = nn.Linear(16, 64)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        y: Tensor = self.read(self.words(F.pad(tokens, (0, -length % 16))))
        return y[:, :length]


@pytest.mark.parametrize("length", [41, 200])
def test_work_that_is_no_polynomial_of_the_length_is_counted_where_it_is_asked_for(length: int) -> None:
    found = count_costs(Chunks(), WORDS, length)
    assert found.forward["output"] == 2 * math.ceil(length / 16) * 16 * 16 * 64


class Scan(nn.Module):
    """A running sum by doubling."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(64, 16)

    def forward(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.words(tokens)
        reach = 1
        while reach < x.shape[1]:
            x = x + F.pad(x, (0, 0, reach, 0))[:, : x.shape[1]]
            reach *= 2
        return x @ self.words.weight.T


def test_a_scan_is_told_from_a_loop() -> None:
    assert count_costs(Scan(), WORDS, 100).growth == "logarithmic"


def test_the_model_is_as_it_was() -> None:
    model = Foreign().eval()
    hooks = [len(module._forward_hooks) for module in model.modules()]
    count_costs(model, WORDS, 10)
    assert [len(module._forward_hooks) for module in model.modules()] == hooks
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_model_that_computes_with_its_weights_is_built_in_full() -> None:
    assert sum(ledger("elman:spectral_radius=1.5", length=8).parameters.values()) == 256 * 32 + 6272 + 65 * 256


def test_the_command_gives_the_same_as_data() -> None:
    done = CliRunner().invoke(main, ["ledger", "lstm", "gpt", "--length", "20", "--format", "json"])
    assert done.exit_code == 0, done.output
    shown = json.loads(done.output)
    assert list(shown) == ["lstm", "gpt"]
    assert shown["gpt"]["forward"] == ledger("gpt", length=20).forward


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_the_command_writes_for_people(form: str) -> None:
    done = CliRunner().invoke(main, ["ledger", "gpt", "--length", "20", "--format", form])
    assert done.exit_code == 0, done.output
    assert "feed-forward" in done.output


@pytest.mark.parametrize(
    ("asked", "said"),
    [(["gpt", "--length", "121"], "120 tokens at most"), (["gptt"], "gptt"), (["gpt:layers=0"], "layers")],
)
def test_what_cannot_be_counted_is_a_wrong_request(asked: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["ledger", *asked])
    assert (done.exit_code, said in done.output) == (2, True), done.output


def test_a_model_too_short_for_the_length_is_named() -> None:
    with pytest.raises(RequestError, match="120 tokens at most"):
        ledger("gpt", length=500)


@pytest.mark.usefixtures("timed_here")
def test_the_probe_puts_operations_beside_time(tmp_path: Path) -> None:
    results = harness.run(
        models=["lstm"], probes=["ledger:length=16,budget=0.2"], seeds=1, training={"steps": 0}, out=tmp_path
    )
    [record] = results.records
    expected: Ledger = ledger("lstm", length=16, vocabulary=18)
    values = {each.name: each.value for each in record.measurements if isinstance(each, Scalar)}
    verdicts = {each.name: each.verdict for each in record.measurements if isinstance(each, Scalar)}
    assert values["forward_operations"] == sum(expected.forward.values()) / 1e6
    assert values["state"] == 0.5
    assert verdicts["chain"] == "reads token by token"
    assert values["forward_speed"] > 0
    [table] = [each for each in record.measurements if isinstance(each, Matrix)]
    assert [row[0] for row in table.values] == [n for n in expected.parameters.values() if n]


def test_the_probe_is_skipped_where_the_model_is_too_short(tmp_path: Path) -> None:
    results = harness.run(models=["gpt"], probes=["ledger"], seeds=1, training={"steps": 0}, out=tmp_path)
    [record] = results.records
    assert record.status == "skipped"
    assert "length=120" in str(record.reason)


def test_a_window_is_as_wide_as_it_is() -> None:
    """Shorter than its window, attention of a window looks like any other: only long sequences tell, of which the state
    holds the last keys and values, and nothing else does."""
    found = ledger("window_attention:window=64,heads=2,layers=1", length=1024, vocabulary=2)
    assert found.exponent == pytest.approx(1, abs=0.01)
    assert found.cache_bytes == 0
    assert found.state_bytes == pytest.approx(2 * 63 * 32 * 4, rel=0.05)
