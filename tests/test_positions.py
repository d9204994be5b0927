"""Positions of the built-in GPT: order is seen by them alone, and their distances are what they should be."""

import copy
import math

import pytest
import torch
from built_in import POSITIONS, Recorder, enlarge, positions
from built_in import seeded as seeded  # the fixture
from harness_plugins.models.gpt import GPT, Position, alibi, alibi_slopes, rotate, rotations, sinusoids
from torch import Tensor

NEIGHBOURS = 15.313649189905266
"""The sum of cos(10000^(-2i/32)) over i = 0..15 by `math.fsum`; the published 15.3137 is one off in the last digit."""


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
