"""Mixers in the backbone: one pass is the same as steps, what they compute is what they say, and anybody's come in."""

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from click.testing import CliRunner
from conftest import SHORT
from harness_plugins.models.attention import BLOCK, Position, WindowAttention
from harness_plugins.models.backbone import Backbone, Hybrid, model_of
from harness_plugins.models.chunks import CHUNK
from harness_plugins.models.delta_net import DeltaNet, delta_rule
from harness_plugins.models.linear_attention import LinearAttention
from torch import Tensor, nn

import harness
from harness import Interface
from harness.attention import cut, edges_at_query, observe
from harness.blame import blame
from harness.cli import main
from harness.errors import PluginError, RequestError
from harness.ledger.counting import count_costs
from harness.plugin import Plugin, resolve
from harness.recurrence import recurrent_modules, replaced, states_of
from harness.registry import default_registry
from harness.sources import read_anew
from harness.suites import Request
from harness.targets import find_entry, load_definition
from harness.testing import check_model

Write = Callable[..., str]

EXACT = 1e-12

STEPPED = [
    "window_attention:window=5,position=rope,short=3",
    "window_attention:window=1,layers=1",
    "window_attention:window=40,position=alibi,layers=1",
    "linear_attention:norm=layer,tied=false",
    "linear_attention:decay=fixed,heads=4,key=3,feed_forward=0",
    "linear_attention:decay=learned,short=1",
    "delta_net:heads=1,activation=silu",
    "delta_net:negative=true,key=4,short=4",
    "mamba:heads=2,state=3",
    "mamba:negative=true,short=4",
    "min_gru",
    "min_lstm:expand=3",
    "m_lstm:heads=4,key=3",
    "hybrid:first=delta_net,second=window_attention:window=3,layers=3",
]
"""Models that offer their state, one for each way through their code."""


def plugin(text: str) -> Plugin:
    request = Request.model_validate(text)
    return resolve(load_definition(find_entry(default_registry(), "model", request.name)), request)


def model(text: str) -> Any:
    torch.manual_seed(0)
    return plugin(text).construct(vocab_size=11).double().eval()


def tokens(batch: int, time: int) -> Tensor:
    return torch.randint(11, (batch, time), generator=torch.Generator().manual_seed(time))


def in_steps(built: Any, inputs: Tensor) -> Tensor:
    state, outputs = built.initial_state(len(inputs)), []
    for x in inputs.unbind(1):
        output, state, _ = built.step(x, state)
        outputs.append(output)
    return torch.stack(outputs, 1)


@pytest.mark.parametrize("text", STEPPED)
def test_one_pass_is_the_same_as_steps(text: str) -> None:
    """At lengths around the borders of chunks and windows, and nothing sees what comes later, in whichever chunk."""
    built = model(text)
    assert recurrent_modules(built) == {"": built}
    with torch.no_grad():
        for batch, time in ((1, 1), (2, 2), (1, CHUNK), (2, CHUNK + 1), (1, 2 * CHUNK + 3)):
            inputs = tokens(batch, time)
            whole = built(inputs)
            assert torch.allclose(whole, in_steps(built, inputs), rtol=0, atol=EXACT)
        for end in (1, CHUNK - 1, CHUNK, CHUNK + 1):
            assert torch.allclose(built(inputs[:, :end]), whole[:, :end], rtol=0, atol=EXACT)


@pytest.mark.parametrize("text", STEPPED)
def test_mixers_work_in_every_precision_and_train(text: str) -> None:
    """Also in bfloat16, whose rounding is all that differs; gradients are finite."""
    built, inputs = model(text), tokens(2, 2 * CHUNK + 3)
    expected = built(inputs)
    for dtype, near in ((torch.float32, 1e-4), (torch.bfloat16, 0.2)):
        outputs = built.to(dtype)(inputs)
        assert outputs.dtype == dtype
        assert (outputs - expected).abs().max() < near * expected.abs().max()
    built.float()(inputs).square().mean().backward()
    assert all(torch.isfinite(each.grad).all() for each in built.parameters())


@pytest.mark.parametrize("mixer", ["attention:position=rope", "hyena", *(each for each in STEPPED if ":" in each)])
def test_long_sequences_are_as_exact_as_their_precision(mixer: str) -> None:
    """At 1,024 positions; also where what is seen adds up to more than float16 can hold."""
    built = model(mixer).blocks[0].mixer
    x = 6 * torch.randn(1, 1024, 32, dtype=torch.float64)
    with torch.no_grad():
        expected = built(x)
        for dtype, near in ((torch.float32, 3e-5), (torch.float16, 5e-3), (torch.bfloat16, 0.04)):
            outputs = built.to(dtype)(x.to(dtype))
            assert outputs.dtype == dtype
            assert (outputs - expected).norm() < near * expected.norm(), dtype


@pytest.mark.parametrize("steps", [False, True])
def test_linear_attention_divides_by_something_however_unlike_queries_and_keys_are(steps: bool) -> None:
    """elu(-20) + 1 is e^-20, and 0 if it is computed so in float32."""
    mixer = LinearAttention(4, heads=1, key=1)
    with torch.no_grad():
        for layer in (mixer.query, mixer.key):
            layer.weight.fill_(-5.0)
        x = torch.ones(1, 3, 4, requires_grad=True)
        mixer.value.weight.copy_(torch.eye(4))
        mixer.out.weight.copy_(torch.eye(4))
    y = in_steps(mixer, x) if steps else mixer(x)
    torch.testing.assert_close(y, torch.ones(1, 3, 4))
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("name", ["gpt", "delta_net"])
def test_a_head_of_its_own_is_called(name: str) -> None:
    """Whoever looks at its outputs from outside sees the model's."""
    built, seen = model(f"{name}:tied=false"), []
    built.head.register_forward_hook(lambda _, __, outputs: seen.append(outputs))
    assert built(tokens(2, 5)) is seen[0]


def test_linear_attention_is_attention_with_another_similarity() -> None:
    """Katharopoulos et al., equation 7: weights f(q) f(k), normalised over what came before."""
    torch.manual_seed(0)
    mixer = LinearAttention(6, heads=1, key=4).double()
    x = torch.randn(2, 2 * CHUNK + 1, 6, dtype=torch.float64)
    q, k, v = mixer.query(x), mixer.key(x), mixer.value(x)
    weights = ((F.elu(q) + 1) @ (F.elu(k) + 1).mT).tril()
    expected = mixer.out(weights / weights.sum(-1, keepdim=True) @ v)
    assert torch.allclose(mixer(x), expected, rtol=0, atol=EXACT)


def test_the_delta_rule_overwrites_and_with_a_share_of_two_flips() -> None:
    """A key retrieves what was written under it last; other keys keep theirs. Above 1, what is there changes sign."""
    keys = torch.eye(3, dtype=torch.float64)[[0, 1, 0, 2, 0, 1]].view(1, 6, 1, 3)
    values = torch.arange(1.0, 7, dtype=torch.float64).view(1, 6, 1, 1)
    ones = torch.ones(1, 6, 1, dtype=torch.float64)
    sought = keys[:, [0, 1, 1, 1, 0, 1]]
    assert delta_rule(sought, keys, values, ones, size=4).flatten().tolist() == [1, 2, 2, 2, 5, 6]
    there = torch.tensor([1.0, 0, 0, 0, 0, 0]).double().view(1, 6, 1, 1)
    flipped = delta_rule(keys[:, [0] * 6], keys[:, [0] * 6], there, ones * torch.tensor([1.0, 2, 2, 2, 2, 2])[:, None])
    assert flipped.flatten().tolist() == [1, -1, 1, -1, 1, -1]
    shares = DeltaNet(8, negative=True).parts(torch.randn(100, 8) * 9)[3], DeltaNet(8).parts(torch.randn(100, 8) * 9)[3]
    assert shares[0].max() > 1.5
    assert shares[1].max() <= 1


def test_a_window_sees_no_further() -> None:
    """One layer with a window of 3 after a convolution of width 2 sees four positions."""
    built = model("window_attention:window=3,short=2,layers=1")
    before, after = tokens(1, 9), tokens(1, 9)
    after[0, 3] = (before[0, 3] + 1) % 11
    changed = (built(before) - built(after)).abs().amax((0, 2)) > 0
    assert changed.nonzero().flatten().tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize("position", ["none", "rope", "alibi"])
def test_a_window_is_the_same_in_blocks_and_under_an_observer(position: Position) -> None:
    """Who looks sees one whole pattern; outputs and gradients are those of the blocks that are computed otherwise."""
    for window, time in ((1, 33), (16, BLOCK + 1), (16, 2 * BLOCK), (BLOCK + 1, 100), (40, 41)):
        mixer = WindowAttention(8, window=window, position=position).double()
        x = torch.randn(2, time, 8, dtype=torch.float64, requires_grad=True)
        weights = torch.randn_like(x)
        blocks = mixer(x)
        with observe() as seen:
            whole = mixer(x)
        (pattern,) = seen.patterns
        distance = torch.arange(time)[:, None] - torch.arange(time)
        assert torch.equal(pattern[0, 0] > 0, (distance >= 0) & (distance < window))
        assert torch.allclose(blocks, whole, rtol=0, atol=EXACT)
        of_blocks, of_whole = (torch.autograd.grad((y * weights).sum(), x)[0] for y in (blocks, whole))
        assert torch.allclose(of_blocks, of_whole, rtol=0, atol=EXACT)


def test_a_window_can_be_cut_and_costs_in_proportion_to_the_length() -> None:
    """A cut changes the query that it is for, and no other; operations of twice the length are twice as many."""
    built, inputs = model("window_attention:layers=1"), tokens(1, 3 * BLOCK)
    last = torch.tensor([inputs.shape[1] - 1])
    with torch.no_grad():
        whole = built(inputs)
        with cut(edges_at_query(last, last - 1, inputs.shape[1])):
            difference = (built(inputs) - whole).abs().amax((0, 2))
    assert difference[:-1].max() < EXACT
    assert difference[-1] > EXACT
    assert count_costs(built, Interface(11, 11), 64 * BLOCK).exponent == pytest.approx(1)


def test_states_are_seen_of_the_model_or_of_those_mixers_that_have_one() -> None:
    """With a layer for each block; and what is replaced takes effect."""
    inputs = tokens(2, 5)
    whole = model("delta_net:short=3")
    layers = states_of(whole, inputs)
    assert [layer.name for layer in layers] == ["layer 1", "layer 2"]
    assert layers[0].states.shape == (2, 5, 2 * 16 * 16 + 2 * 32)
    assert set(layers[0].gates) == {"write"}
    with torch.no_grad(), replaced(whole, {"layer 1": layers[0].after(4)}, after=-1):
        assert not torch.allclose(whole(inputs), in_steps(whole, inputs))
    mixed = model("hybrid:first=attention,second=delta_net,layers=4")
    assert [layer.name for layer in states_of(mixed, inputs)] == ["blocks.1.mixer layer 1", "blocks.3.mixer layer 1"]


MIXER = """
from shape import weights
from torch import nn

class Mixer(nn.Module):
    def __init__(self, width: int, *, decay: float = 0.9):
        super().__init__()
        self.decay, self.out = decay, nn.Linear(width, width)

    def forward(self, x):
        return self.out(weights(x, self.decay) @ x)

class Other(Mixer):
    def forward(self, x): return {}

class Future(Mixer):
    def forward(self, x): return self.out(x.flip(1))

class Model(nn.Module):
    def __init__(self, vocab_size: int): ...
"""
SHAPE = """
import torch

def weights(x, decay):
    time = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
    return (decay ** (time[:, None] - time)).tril()
"""


@pytest.fixture
def folder(tmp_path: Path, plugin_file: Write, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where `./my.py` is, with a mixer of ten lines and its neighbour."""
    plugin_file(MIXER, "my.py")
    plugin_file(SHAPE, "shape.py")
    monkeypatch.chdir(tmp_path)
    read_anew()
    yield tmp_path
    read_anew()


def test_a_mixer_in_a_file_is_trained_and_measured(folder: Path) -> None:
    """Beside a built-in one, each with arguments of its own."""
    models = ["backbone:mixer=./my.py:Mixer:decay=0.5,layers=1", 'backbone:mixer="delta_net:key=4,heads=1"']
    training = {"steps": 2, "batch_size": 4}
    results = harness.run(models, SHORT, "accuracy", seeds=1, examples=8, training=training, out=folder / "run")
    assert [record.status for record in results] == ["ok", "ok"]
    report = check_model("backbone:mixer=./my.py:Mixer:decay=0.5")
    assert report.ok, str(report)


LIBRARY = """
from torch import nn

class Layer(nn.Module):
    def __init__(self, mode: str = "chunk", {size}: int = 1024, heads: int = 4, layer_idx: int = None, **kwargs):
        super().__init__()
        self.heads, self.out = heads, nn.Linear({size}, {size})

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **kwargs):
        return self.out(hidden_states.cumsum(1)), None, past_key_values
"""


@pytest.mark.parametrize("size", ["d_model", "hidden_size", "dim"])
def test_a_layer_of_a_library_is_a_mixer_as_it_is(folder: Path, plugin_file: Write, size: str) -> None:
    """By its own word for the number of features, with a default of None for an int, and giving a cache, too."""
    plugin_file(LIBRARY.format(size=size), f"by_{size}.py")
    name = f"backbone:mixer=./by_{size}.py:Layer:heads=2,d_model=16"
    layer = model(name).blocks[0].mixer
    assert (layer.heads, layer.out.in_features) == (2, 16)
    report = check_model(name)
    assert report.ok, str(report)
    with pytest.raises(RequestError, match=f"its '{size}' is the width of the backbone; write d_model"):
        plugin(f'backbone:mixer="./by_{size}.py:Layer:{size}=8"')


def test_a_grid_of_what_a_mixer_takes_is_told_how_to_be_written(folder: Path) -> None:
    """And what is told is a grid."""
    words = ["run", "--dry-run", "--format", "json", "--seeds", "1"]
    model = ["--model", "backbone:mixer=./my.py:Mixer,layers=1"]
    refused = CliRunner().invoke(main, [*words, *model, "--grid", "decay=0.1,0.5"])
    assert refused.exit_code == 2
    told = re.search(r"--model \S+ --grid \S+(?=\. )", refused.output)
    assert told, refused.output
    planned = CliRunner().invoke(main, [*words, *shlex.split(told.group())])
    assert planned.exit_code == 0, planned.output
    for decay in ("0.1", "0.5"):
        assert f"backbone:mixer=./my.py:Mixer:decay={decay},layers=1" in planned.output


def test_the_code_of_a_mixer_decides_ids(folder: Path, plugin_file: Write) -> None:
    """Its file and what this imports; so does the code of a built-in one that is asked for by name."""
    text = "backbone:mixer=./my.py:Mixer"
    seen = {plugin(text).use.digest}
    for name, source in (("my.py", MIXER.replace("0.9", "0.8")), ("shape.py", SHAPE.replace("tril()", "tril(-1)"))):
        plugin_file(source, name)
        read_anew()
        seen.add(plugin(text).use.digest)
    assert len(seen) == 3
    files = Backbone.files(mixer="delta_net")
    assert {file.name for file in files} >= {"delta_net.py", "chunks.py", "backbone.py"}
    assert files == sorted(files)  # not as a set has them, which is another order in each process


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("backbone:mixer=./no.py:Mixer", "there is no file './no.py'"),
        ("backbone:mixer=./my.py:Mixr", "there is no 'Mixr' in .*Did you mean 'Mixer'"),
        ("backbone:mixer=./my.py:Mixer:decya=1", "'./my.py:Mixer': it has no argument 'decya'.*Did you mean 'decay'"),
        ("backbone:mixer=./my.py:Mixer:decay=fast", "'decay' = 'fast'.* valid number"),
        ("backbone:mixer=./my.py:Model", "constructor takes the number of features as `width`"),
        ("backbone:mixer=lstm", "'lstm' is not made of one.* Mixers: attention, .*mamba, .*./my.py:Mixer"),
        ("backbone:mixer=delta_nte", "there is no mixer 'delta_nte'. Did you mean 'delta_net'.* Mixers: attention, "),
        ("backbone:mixer=recall", "there is no mixer 'recall'. Mixers: attention, "),
        ("hybrid:second=delta_net:heads=3", "mixer 'delta_net': the heads share .*heads=3"),
        ("delta_net:heads=3", "use d_model=33"),
        ("attention:heads=32,position=rope", "an odd number"),
    ],
)
def test_a_wrong_mixer_is_refused_when_it_is_asked_for(folder: Path, text: str, said: str) -> None:
    """Before anything is trained."""
    with pytest.raises(RequestError, match=said):
        plugin(text)


def test_a_mixer_that_gives_something_else_or_sees_the_future_is_caught(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"mixer Other was given a tensor of shape \(1, 5, 32\) and gave a dict"):
        model("backbone:mixer=./my.py:Other")(tokens(1, 5))
    (failed,) = check_model("backbone:mixer=./my.py:Future").failed
    assert failed.check.name == "causal"


BROKEN = """
import torch
from torch import nn

class Mixer(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        {constructor}

    def forward(self, x):
        {forward}
"""


@pytest.mark.parametrize(
    ("constructor", "forward", "line"),
    [("nn.Linear(width, 'wide')", "return x", 8), ("pass", "return x @ torch.zeros(3, 5)", 11), ("pass", "x", 10)],
    ids=["constructor", "forward", "returned"],
)
def test_an_error_of_a_mixer_names_the_file_of_the_mixer(
    folder: Path, plugin_file: Write, constructor: str, forward: str, line: int
) -> None:
    """Not that of the backbone, where nobody can repair it; and what is to be repaired is said of mixers, too."""
    plugin_file(BROKEN.format(constructor=constructor, forward=forward), "broken.py")
    text = "backbone:mixer=./broken.py:Mixer"
    with pytest.raises(PluginError, match=rf"\(at broken.py:{line}\)"), blame(plugin(text).use, "being used"):
        model(text)(tokens(1, 5))
    (failed,) = check_model(text).failed
    assert failed.where == f"broken.py:{line}"
    assert "a mixer" in failed.check.fix


def test_a_model_of_your_own_mixer_takes_the_arguments_of_both() -> None:
    """By keyword; one name for two things is refused."""

    class Twice(nn.Module):
        def __init__(self, width: int, *, by: float = 2.0) -> None:
            super().__init__()
            self.by = by

        def forward(self, x: Tensor) -> Tensor:
            return self.by * x

    built = model_of(Twice)(11, by=3.0, layers=1, short=2)
    assert built.blocks[0].mixer.by == 3.0
    assert Hybrid(11, first="attention", layers=3)(tokens(2, 4)).shape == (2, 4, 11)
    with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
        model_of(Twice)(11, depth=1)

    class Deep(Twice):
        def __init__(self, width: int, *, layers: int = 2) -> None: ...

    with pytest.raises(TypeError, match="both have an argument 'layers'"):
        model_of(Deep)
