"""The built-in models: counts, causality, equations and initialisation, by identity wherever there is one."""

import copy
import inspect
import math
from importlib import import_module
from itertools import product
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from built_in import POSITIONS, Recorder, enlarge, positions
from built_in import seeded as seeded  # the fixture
from harness_plugins.models import harness_models
from harness_plugins.models.elman import Elman
from harness_plugins.models.gpt import GPT, Block, Norm, Position, alibi
from harness_plugins.models.gru import GRU
from harness_plugins.models.lstm import LSTM
from pydantic import ValidationError, create_model
from torch import Tensor, nn

GPTS = list(product(POSITIONS, ["pre", "post"]))

CAUSAL: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    **{f"gpt-{position}-{norm}": (GPT, {"position": position, "norm": norm}) for position, norm in GPTS},
    "elman": (Elman, {"layers": 2}),
    "elman-one-bias": (Elman, {"layers": 2, "biases": 1}),
    "lstm": (LSTM, {"layers": 2}),
    "gru": (GRU, {"layers": 2}),
}

causal = pytest.mark.parametrize(("model_class", "arguments"), CAUSAL.values(), ids=CAUSAL)


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def configuration(model_class: type) -> Any:
    """A pydantic model of the keyword arguments, as the harness validates them."""
    keywords = [p for p in inspect.signature(model_class).parameters.values() if p.kind is p.KEYWORD_ONLY]
    fields: dict[str, Any] = {p.name: (p.annotation, p.default) for p in keywords}
    return create_model("Configuration", **fields)


def test_every_spec_points_to_a_model_that_maps_tokens_to_logits() -> None:
    """Each listed target exists, states a learning rate and, with defaults that validate, gives finite logits."""
    specs = {spec.name: spec for spec in harness_models()}
    for spec in (specs[name] for name in ("elman", "lstm", "gru", "gpt")):
        module, name = spec.target.split(":")
        model_class = getattr(import_module(module), name)
        configuration(model_class)()
        logits = model_class(18)(torch.randint(18, (3, 7)))
        assert logits.shape == (3, 7, 18)
        assert logits.isfinite().all()
        assert set(model_class.recommended_training) == {"lr"}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (lambda: Elman(18), 8_018),
        (lambda: LSTM(18), 26_834),
        (lambda: GPT(18), 29_888),
        (lambda: Elman(56, biases=1), 11_640),
        (lambda: LSTM(56), 30_520),
        (lambda: GPT(56, heads=4, d_model=64), 111_360),
        (lambda: GRU(18), 20_562),
        (lambda: Elman(18, layers=2), 8_018 + 8_320),
        (lambda: LSTM(18, layers=2), 26_834 + 4 * 8_320),
        (lambda: GRU(18, layers=2), 20_562 + 3 * 8_320),
        (lambda: GPT(50_257, layers=12, heads=12, d_model=768, max_length=1024), 124_439_808),
    ],
)
def test_parameter_counts(model: Any, expected: int) -> None:
    """Counts equal the published ones, GPT-2 small's among them, and those of gates times 64 (64 + 64 + 2) a layer."""
    with torch.device("meta"):
        assert count(model()) == expected


def test_what_arguments_add_to_the_count() -> None:
    """A block has 12 d^2 + 13 d; untying adds a matrix; only learned positions have a table; post-norm ends bare."""
    d = 32
    assert count(Block(d, 2, "pre", 0.0)) == count(Block(d, 2, "post", 0.0)) == 12 * d**2 + 13 * d
    base = count(GPT(18))
    assert count(GPT(18, tied=False)) == base + 18 * d
    assert all(count(GPT(18, position=p)) == base - 120 * d for p in POSITIONS[1:])
    assert count(GPT(18, norm="post")) == base - 2 * d


@causal
def test_outputs_before_a_changed_token_stay_exactly_as_they_were(
    model_class: type[nn.Module], arguments: dict[str, Any]
) -> None:
    """Causality: bit for bit before the change, in float32 too; different at the change and at the end."""
    for model in (enlarge(model_class(18, **arguments)), model_class(18, **arguments)):
        tokens = torch.randint(18, (4, 12))
        changed = tokens.clone()
        changed[:, 6] = (tokens[:, 6] + 1) % 18
        before, after = model(tokens), model(changed)
        assert torch.equal(before[:, :6], after[:, :6])
        assert (before[:, 6:] != after[:, 6:]).any(dim=-1).all()


def test_a_bidirectional_lstm_is_not_causal() -> None:
    """Its outputs before a changed token change, and it has twice the cells."""
    model = enlarge(LSTM(18, bidirectional=True))
    tokens = torch.randint(18, (4, 12))
    changed = tokens.clone()
    changed[:, 6] = (tokens[:, 6] + 1) % 18
    assert (model(tokens)[:, :6] != model(changed)[:, :6]).any(dim=-1).all()
    assert count(model) == 18 * 32 + 2 * 4 * (32 * 64 + 64 * 64 + 128) + 128 * 18 + 18


@causal
def test_one_pass_equals_a_pass_for_each_prefix(model_class: type[nn.Module], arguments: dict[str, Any]) -> None:
    """The output at t of a whole sequence is the last output of its first t tokens, to 1e-12."""
    model = enlarge(model_class(18, **arguments))
    tokens = torch.randint(18, (3, 10))
    prefixes = torch.stack([model(tokens[:, : t + 1])[:, -1] for t in range(10)], dim=1)
    torch.testing.assert_close(model(tokens), prefixes, rtol=0, atol=1e-12)


@pytest.mark.parametrize("biases", [1, 2])
def test_elman_by_hand(biases: Literal[1, 2]) -> None:
    """One unit, two steps: h = tanh(2 x + 0.5 h + 0.1), whether 0.1 is one bias or the sum of two."""
    model = Elman(2, embedding=1, hidden=1, biases=biases).double()
    values = {
        "embedding.weight": [[0.5], [-1.0]],
        "rnn.weight_ih_l0": [[2.0]],
        "rnn.weight_hh_l0": [[0.5]],
        "rnn.bias_ih_l0": [0.1] if biases == 1 else [0.07],
        "head.weight": [[1.0], [-3.0]],
        "head.bias": [0.0, 0.25],
    } | ({} if biases == 1 else {"rnn.bias_hh_l0": [0.03]})
    model.load_state_dict({name: torch.tensor(value) for name, value in values.items()})
    first = math.tanh(2 * 0.5 + 0.1)
    second = math.tanh(2 * -1 + 0.5 * first + 0.1)
    expected = torch.tensor([[[first, 0.25 - 3 * first], [second, 0.25 - 3 * second]]], dtype=torch.float64)
    torch.testing.assert_close(model(torch.tensor([[0, 1]])), expected, rtol=0, atol=1e-7)


def test_one_bias_survives_what_is_done_to_modules() -> None:
    """State dict round trip, deep copy, change of precision and an optimiser step: still one bias, all of it used."""
    model = Elman(18, layers=2, biases=1)
    tokens = torch.randint(18, (3, 7))
    untouched = copy.deepcopy(model)
    torch.testing.assert_close(untouched(tokens), model(tokens), rtol=0, atol=0)

    loaded = Elman(18, layers=2, biases=1)
    loaded.load_state_dict(model.state_dict())
    torch.testing.assert_close(loaded(tokens), model(tokens), rtol=0, atol=0)
    torch.testing.assert_close(copy.deepcopy(model).double()(tokens).float(), model(tokens))
    assert sum("bias" in name for name in model.rnn.state_dict()) == 2

    before = model(tokens)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    before.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
    optimiser.step()
    copied = copy.deepcopy(model)
    for after in (model, copied):
        assert not torch.allclose(after(tokens), before)
        assert not any(zero.any() for zero in after.rnn.buffers())
    torch.testing.assert_close(copied(tokens), model(tokens), rtol=0, atol=0)
    torch.testing.assert_close(untouched(tokens), before, rtol=0, atol=0)


@pytest.mark.parametrize("radius", [0.5, 1.0, 2.0])
def test_spectral_radius(radius: float) -> None:
    """Every W_hh starts with its largest eigenvalue at the radius, and is otherwise the one drawn without it."""
    model = Elman(18, layers=2, spectral_radius=radius)
    torch.manual_seed(0)
    drawn = Elman(18, layers=2)
    for name in ("weight_hh_l0", "weight_hh_l1"):
        weight, base = model.rnn.get_parameter(name).detach(), drawn.rnn.get_parameter(name).detach()
        assert torch.linalg.eigvals(weight.double()).abs().max().item() == pytest.approx(radius, rel=1e-5)
        torch.testing.assert_close(weight / weight.norm(), base / base.norm())


@pytest.mark.parametrize("bias", [0.0, 1.0, 3.0])
def test_forget_bias_is_the_sum_of_both_vectors(bias: float) -> None:
    """In all layers and directions, and for the forget gate (second of i, f, g, o) only."""
    rnn = LSTM(18, hidden=8, layers=2, forget_bias=bias, bidirectional=True).rnn
    for suffix in ("l0", "l1", "l0_reverse", "l1_reverse"):
        vectors = [rnn.get_parameter(f"bias_{part}_{suffix}").detach() for part in ("ih", "hh")]
        assert ((vectors[0] + vectors[1])[8:16] == bias).all()
        for i, _, g, o in (vector.chunk(4) for vector in vectors):
            assert all(len(gate.unique()) == 8 for gate in (i, g, o))


def test_the_forget_gate_is_the_one_that_keeps_the_cell() -> None:
    """With a forget bias of 100 and no input, output and candidate weights, the cell stays as it was."""
    rnn = LSTM(18, hidden=8, forget_bias=100.0).rnn
    start = torch.randn(1, 1, 8)
    quiet = torch.zeros_like(rnn.get_parameter("bias_ih_l0"))
    quiet[:8], quiet[8:16] = -100, 100
    rnn.load_state_dict({**rnn.state_dict(), "bias_ih_l0": quiet, "bias_hh_l0": torch.zeros_like(quiet)})
    _, (_, cell) = rnn(torch.randn(1, 20, 32), (torch.zeros(1, 1, 8), start))
    torch.testing.assert_close(cell, start)


@positions
def test_all_attention_is_visible_to_interception(position: Position) -> None:
    """One `scaled_dot_product_attention` a layer, causal by flag (the fast kernel), by a float mask for ALiBi only."""
    model = GPT(18, layers=3, heads=4, position=position)
    with Recorder() as recorder:
        model(torch.randint(18, (2, 6)))
    assert len(recorder.calls) == 3
    for call in recorder.calls:
        assert call["query"].shape == (2, 4, 6, 8)
        assert call["is_causal"] is (position != "alibi")
        if position == "alibi":
            torch.testing.assert_close(call["attn_mask"], alibi(6, 4, like=torch.zeros(1)))
        else:
            assert call["attn_mask"] is None


def test_attention_by_hand() -> None:
    """A layer equals softmax(q k / sqrt(d_head)) v with heads in consecutive features, computed in a loop."""
    attention: Any = enlarge(GPT(18, layers=1, heads=2, d_model=8)).blocks[0].attention
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    q, k, v = F.linear(x, attention.qkv.weight, attention.qkv.bias)[0].split(8, dim=-1)
    rows = []
    for t in range(5):
        heads = []
        for h in (slice(0, 4), slice(4, 8)):
            weights = torch.softmax(torch.stack([q[t, h] @ k[j, h] / 2 for j in range(t + 1)]), dim=0)
            heads.append(sum(weights[j] * v[j, h] for j in range(t + 1)))
        rows.append(attention.out(torch.cat(heads)))
    torch.testing.assert_close(attention(x)[0], torch.stack(rows), rtol=0, atol=1e-13)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_where_the_norm_stands(norm: Norm) -> None:
    """Blocks equal their equations, and before the output projection every position has been normalised."""
    block: Any = enlarge(GPT(18, norm=norm)).blocks[0]
    x = torch.randn(2, 5, 32, dtype=torch.float64)
    if norm == "pre":
        y = x + block.attention(block.norm1(x))
        expected = y + block.mlp(block.norm2(y))
    else:
        y = block.norm1(x + block.attention(x))
        expected = block.norm2(y + block.mlp(y))
    torch.testing.assert_close(block(x), expected, rtol=0, atol=0)

    model = GPT(18, norm=norm).double()
    last: list[Tensor] = []
    model.norm.register_forward_hook(lambda *call: last.append(call[-1]))
    model(torch.randint(18, (2, 5)))
    torch.testing.assert_close(last[0].square().mean(-1), torch.ones(2, 5, dtype=torch.float64), rtol=0.05, atol=0)


def test_dropout_acts_in_training_only() -> None:
    """Two training passes differ, attention drops too, and evaluation repeats itself."""
    model = GPT(18, dropout=0.5)
    tokens = torch.randint(18, (2, 20))
    with Recorder() as recorder:
        assert not torch.equal(model(tokens), model(tokens))
        model.eval()
        assert torch.equal(model(tokens), model(tokens))
    assert [call["dropout_p"] for call in recorder.calls] == [0.5] * 4 + [0.0] * 4


def test_a_tied_output_is_stored_once() -> None:
    """The state dict holds no tensor twice, as safetensors demands; the embedding gets the gradients of both uses."""
    model = GPT(18)
    addresses = [tensor.data_ptr() for tensor in model.state_dict().values()]
    assert len(addresses) == len(set(addresses)) == len(list(model.parameters()))
    model(torch.zeros(1, 4, dtype=torch.long))[..., 9].sum().backward()
    gradient = model.embedding.weight.grad
    assert gradient is not None
    assert [row for row in range(18) if gradient[row].any()] == [0, 9]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"d_model": 32, "heads": 3}, r"d_model=32 is not divisible by heads=3; use d_model=33"),
        ({"d_model": 6, "heads": 2, "position": "rope"}, r"d_model=6 with heads=2.*3, an odd.*use d_model=8"),
    ],
)
def test_widths_that_do_not_fit(arguments: dict[str, Any], message: str) -> None:
    """The error says what was received and what would work, and what it suggests does work."""
    with pytest.raises(ValueError, match=message):
        GPT(18, **arguments)
    suggested = int(message.rsplit("=", 1)[1])
    GPT(18, **{**arguments, "d_model": suggested})(torch.zeros(1, 3, dtype=torch.long))


@pytest.mark.parametrize(
    ("model_class", "arguments"),
    [
        (Elman, {"biases": 3}),
        (Elman, {"spectral_radius": 0.0}),
        (LSTM, {"hidden": 0}),
        (LSTM, {"forget_bias": "much"}),
        (GRU, {"layers": -1}),
        (GPT, {"position": "absolute"}),
        (GPT, {"norm": "none"}),
        (GPT, {"dropout": 1.0}),
        (GPT, {"heads": 0}),
    ],
)
def test_annotations_refuse_bad_arguments(model_class: type, arguments: dict[str, Any]) -> None:
    """Types and ranges stand in the signature, so that validation needs no model."""
    with pytest.raises(ValidationError):
        configuration(model_class)(**arguments)
