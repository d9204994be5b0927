"""The built-in models: counts, causality, positions and initialisation, by identity wherever there is one."""

import copy
import inspect
import math
from importlib import import_module
from itertools import product
from typing import Any, Literal, TypeVar

import pytest
import torch
import torch.nn.functional as F
from harness_plugins.models import harness_models
from harness_plugins.models.elman import Elman
from harness_plugins.models.gpt import GPT, Block, Norm, Position, alibi, alibi_slopes, rotate, rotations, sinusoids
from harness_plugins.models.gru import GRU
from harness_plugins.models.lstm import LSTM
from pydantic import ValidationError, create_model
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

M = TypeVar("M", bound=nn.Module)
POSITIONS: list[Position] = ["learned", "sinusoidal", "none", "rope", "alibi"]
GPTS = list(product(POSITIONS, ["pre", "post"]))
CAUSAL: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    **{f"gpt-{position}-{norm}": (GPT, {"position": position, "norm": norm}) for position, norm in GPTS},
    "elman": (Elman, {"layers": 2}),
    "elman-one-bias": (Elman, {"layers": 2, "biases": 1}),
    "lstm": (LSTM, {"layers": 2}),
    "gru": (GRU, {"layers": 2}),
}
NEIGHBOURS = 15.313649189905266
"""The sum of cos(10000^(-2i/32)) over i = 0..15 by `math.fsum`; the published 15.3137 is one off in the last digit."""
causal = pytest.mark.parametrize(("model_class", "arguments"), CAUSAL.values(), ids=CAUSAL)
positions = pytest.mark.parametrize("position", POSITIONS)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def enlarge(model: M) -> M:
    """Weights far from their small beginnings, in float64, so that a dependence cannot hide in rounding."""
    for parameter in model.double().parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return model.eval()


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def configuration(model_class: type) -> Any:
    """A pydantic model of the keyword arguments, as the harness validates them."""
    keywords = [p for p in inspect.signature(model_class).parameters.values() if p.kind is p.KEYWORD_ONLY]
    fields: dict[str, Any] = {p.name: (p.annotation, p.default) for p in keywords}
    return create_model("Configuration", **fields)


class Recorder(TorchFunctionMode):
    """Keeps the arguments of every call of `scaled_dot_product_attention`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[dict[str, Any]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention:
            names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
            self.calls.append({**dict(zip(names, args, strict=False)), **(kwargs or {})})
        return func(*args, **(kwargs or {}))


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


def test_sinusoids_are_alike_at_equal_distances() -> None:
    """PE[p].PE[p+1] is the sum of cos(10000^(-2i/d)) at every p; the first row is 0, 1, 0, 1, ...; odd widths work."""
    table = sinusoids(40, 32, like=torch.zeros(1, dtype=torch.float64))
    neighbours = (table[:-1] * table[1:]).sum(-1)
    assert neighbours.tolist() == pytest.approx([NEIGHBOURS] * 39, abs=1e-12)
    assert table[0].tolist() == [0.0, 1.0] * 16
    assert table[3, :4].tolist() == pytest.approx(
        [f(3 * w) for w in (1, 10 ** (-4 / 16)) for f in (math.sin, math.cos)]
    )
    assert sinusoids(4, 5, like=torch.zeros(1)).shape == (4, 5)


def test_sinusoidal_tokens_are_not_drowned() -> None:
    """Tokens enter at unit size beside sinusoids; every other matrix, and every other GPT, starts from N(0, 0.02)."""
    for position in POSITIONS:
        model = GPT(512, position=position)
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                sinusoidal_embedding = position == "sinusoidal" and name == "embedding.weight"
                expected = 32**-0.5 if sinusoidal_embedding else 0.02
                assert parameter.std().item() == pytest.approx(expected, rel=0.1)
    seen: list[Tensor] = []
    model = GPT(512, position="sinusoidal").double()
    model.blocks[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    tokens = torch.arange(50)[None]
    model(tokens)
    added = seen[0][0] - sinusoids(50, 32, like=seen[0])
    torch.testing.assert_close(added, model.embedding(tokens)[0] * math.sqrt(32))
    assert added.std().item() == pytest.approx(1, rel=0.1)


@positions
def test_only_positions_tell_the_order(position: Position) -> None:
    """In one layer, swapping x2 and x3 leaves x4' as it is without positions and changes it with any."""
    model = enlarge(GPT(18, layers=1, position=position))
    tokens = torch.tensor([[3, 7, 11, 5]])
    difference = (model(tokens) - model(tokens[:, [0, 2, 1, 3]]))[0, 3].abs().max().item()
    assert difference < 1e-13 if position == "none" else difference > 1e-4


def test_rotary_scores_depend_on_the_distance_only() -> None:
    """Equal vectors at every place give Toeplitz scores; sixteen pairs (1, 0) give the sum of cosines."""
    by = rotations(20, 32, like=torch.zeros(1, dtype=torch.float64))
    q, k = torch.randn(2, 1, 1, 1, 32, dtype=torch.float64).expand(2, 1, 1, 20, 32)
    scores = (rotate(q, by) @ rotate(k, by).transpose(-1, -2))[0, 0]
    torch.testing.assert_close(scores[1:, 1:], scores[:-1, :-1], rtol=0, atol=1e-12)
    torch.testing.assert_close(scores[0, 0], (q[0, 0, 0] * k[0, 0, 0]).sum())
    assert scores[0].std() > 0.1
    ones = torch.tensor([1.0, 0.0] * 16, dtype=torch.float64).expand(1, 1, 20, 32)
    turned = rotate(ones, by)[0, 0]
    assert (turned[4] @ turned[5]).item() == pytest.approx(NEIGHBOURS, abs=1e-12)


def test_rotary_turns_queries_and_keys_but_not_values() -> None:
    """In the model: with one token repeated, scores vary by distance alone and all values are the same."""
    model = enlarge(GPT(18, position="rope"))
    with Recorder() as recorder:
        model(torch.full((1, 9), 4))
    q, k, v = (recorder.calls[0][name] for name in ("query", "key", "value"))
    scores = q @ k.transpose(-1, -2)
    torch.testing.assert_close(scores[..., 1:, 1:], scores[..., :-1, :-1], rtol=0, atol=1e-12)
    assert (scores[..., -1, :].std(dim=-1) > 1e-3).all()
    torch.testing.assert_close(v, v[..., :1, :].expand_as(v), rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("heads", "exponents"),
    [
        (1, [8]),
        (2, [4, 8]),
        (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (3, [4, 8, 2]),
        (6, [2, 4, 6, 8, 1, 3]),
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
    ],
)
def test_alibi_slopes(heads: int, exponents: list[float]) -> None:
    """The slopes of the paper for powers of two, and of the authors' code for other numbers of heads."""
    assert alibi_slopes(heads) == pytest.approx([2**-exponent for exponent in exponents])


def test_alibi_bias_by_hand() -> None:
    """Two heads, three tokens: slopes 1/16 and 1/256 times the distance back, and no future."""
    never = -math.inf
    expected = [
        [[0, never, never], [-1 / 16, 0, never], [-2 / 16, -1 / 16, 0]],
        [[0, never, never], [-1 / 256, 0, never], [-2 / 256, -1 / 256, 0]],
    ]
    assert alibi(3, 2, like=torch.zeros(1))[0].tolist() == expected


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


def test_learned_positions_end_where_their_table_does() -> None:
    """The full length works; one more token is an error with both lengths and the way out."""
    model = GPT(18, max_length=10)
    assert model.max_length == 10
    assert model(torch.zeros(1, 10, dtype=torch.long)).shape == (1, 10, 18)
    with pytest.raises(ValueError, match=r"11 tokens.*max_length=10.*larger max_length"):
        model(torch.zeros(1, 11, dtype=torch.long))


@pytest.mark.parametrize("position", POSITIONS[1:])
def test_other_positions_have_no_limit(position: Position) -> None:
    """They ignore `max_length`, say so, and go on beyond it."""
    model = GPT(18, max_length=10, position=position)
    assert model.max_length is None
    assert model(torch.randint(18, (2, 300))).isfinite().all()


@positions
def test_tables_follow_device_and_precision(position: Position) -> None:
    """Logits come out on the device and in the precision of the weights; autocast and bfloat16 are near float32."""
    model = GPT(18, position=position).eval()
    tokens = torch.randint(18, (2, 20))
    exact = model(tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(model(tokens).float(), exact, rtol=0.1, atol=0.05)
    torch.testing.assert_close(copy.deepcopy(model).double()(tokens), exact.double(), rtol=1e-4, atol=1e-5)
    rounded = copy.deepcopy(model).bfloat16()(tokens)
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.float(), exact, rtol=0.1, atol=0.05)
    assert model.to("meta")(tokens.to("meta")).is_meta


@positions
def test_a_look_in_inference_mode_does_not_disturb_training(position: Position) -> None:
    """After a forward pass in inference mode every parameter still gets a gradient."""
    model = GPT(18, position=position, tied=False)
    tokens = torch.randint(18, (2, 20))
    with torch.inference_mode():
        model(tokens)
    model(tokens).square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


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
