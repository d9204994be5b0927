"""One residual backbone for all mixers, so that what differs between two models is the mixer and nothing else."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_type_hints

import torch
import torch.nn.functional as F
from harness_plugins.models.ends import either, input_layer
from harness_plugins.models.mixers import Mixer, find_mixer
from jaxtyping import Float, Shaped
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from harness import Interface
from harness.errors import ReturnedError
from harness.offers import OffersState
from harness.targets import place_of

Norm = Literal["rms", "layer"]


class ShortConvolution(nn.Module):
    """A causal convolution of a few positions, each feature by itself.

    Args:
        d_model: the number of features.
        width: how many positions it sees, its own included.
    """

    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_model, width).uniform_(-(width**-0.5), width**-0.5))

    def start(self, batch_size: int) -> Float[Tensor, "batch before d_model"]:
        """The inputs before the first one: zeros."""
        d_model, width = self.weight.shape
        return self.weight.new_zeros(batch_size, width - 1, d_model)

    def next(
        self, x: Float[Tensor, "batch d_model"], state: Float[Tensor, "batch before d_model"]
    ) -> tuple[Float[Tensor, "batch d_model"], Float[Tensor, "batch before d_model"]]:
        """One position, and the last inputs for the next."""
        seen = torch.cat((state, x[:, None]), 1)
        return torch.einsum("bwd,dw->bd", seen, self.weight), seen[:, 1:]

    def forward(self, x: Float[Tensor, "batch time d_model"]) -> Float[Tensor, "batch time d_model"]:
        d_model, width = self.weight.shape
        padded = F.pad(x.mT, (width - 1, 0))
        return F.conv1d(padded, self.weight[:, None], groups=d_model).mT


class Block(nn.Module):
    """A mixer, then a feed-forward net on each position; each behind a norm and beside a residual connection.

    Args:
        mixer: maps `batch time d_model` to the same, causally.
        d_model: the number of features.
        short: width of the convolution before the mixer; 0 for none.
        feed_forward: width of the net's hidden layer in multiples of `d_model`; 0 for none.
        norm: of root mean squares, or with mean and bias.
        dropout: rate on both branches while training.
    """

    def __init__(
        self, mixer: nn.Module, *, d_model: int, short: int, feed_forward: int, norm: Norm, dropout: float
    ) -> None:
        super().__init__()
        self.norm = norm_of(norm, d_model)
        self.short = ShortConvolution(d_model, short) if short else None
        self.mixer = mixer
        self.dropout = nn.Dropout(dropout)
        self.feed_forward = None
        if feed_forward:
            hidden = feed_forward * d_model
            self.feed_forward = nn.Sequential(
                norm_of(norm, d_model), nn.Linear(d_model, hidden), nn.GELU(), nn.Linear(hidden, d_model), self.dropout
            )

    def start(self, batch_size: int) -> dict[str, Any]:
        """Of the mixer and, if there is one, of the convolution."""
        mixer: Any = self.mixer
        state = {"mixer": mixer.initial_state(batch_size)}
        return state if self.short is None else state | {"short": self.short.start(batch_size)}

    def next(
        self, x: Float[Tensor, "batch d_model"], state: dict[str, Any]
    ) -> tuple[Float[Tensor, "batch d_model"], dict[str, Any], Mapping[str, Tensor]]:
        """One position; the gates are the mixer's."""
        mixer: Any = self.mixer
        y, after = self.norm(x), {}
        if self.short is not None:
            y, after["short"] = self.short.next(y, state["short"])
        y, after["mixer"], gates = mixer.step(y, state["mixer"])
        return self.add(x, y), after, gates

    def forward(self, x: Float[Tensor, "batch time d_model"]) -> Float[Tensor, "batch time d_model"]:
        y = self.norm(x)
        if self.short is not None:
            y = self.short(y)
        y = self.mixer(y)
        return self.add(x, y[0] if isinstance(y, tuple) else y)  # layers of libraries give a cache behind it

    def add(self, x: Float[Tensor, "*_ d_model"], y: Any) -> Float[Tensor, "*_ d_model"]:
        """The input, what the mixer makes of it, and what the feed-forward net makes of both.

        Raises:
            ReturnedError: the mixer gave something else than a tensor like its input.
        """
        if not isinstance(y, Tensor) or y.shape != x.shape:
            given = f"one of shape {tuple(y.shape)}" if isinstance(y, Tensor) else f"a {type(y).__name__}"
            raise ReturnedError(
                f"the mixer {type(self.mixer).__name__} was given a tensor of shape {tuple(x.shape)} and gave {given}; "
                "a mixer gives a tensor of the shape that it is given",
                place_of(type(self.mixer).forward),
            )
        x = x + self.dropout(y)
        return x if self.feed_forward is None else x + self.feed_forward(x)


def norm_of(norm: Norm, d_model: int) -> nn.Module:
    """A norm of `d_model` features."""
    return nn.RMSNorm(d_model, eps=1e-6) if norm == "rms" else nn.LayerNorm(d_model)


class Residual(nn.Module):
    """The frame of all models that are made of mixers: embedding, blocks, norm, linear readout.

    It offers its state (`harness.offers.OffersState`) if each of its mixers does. Otherwise those that do are seen
    for themselves.

    Args:
        mixers: what the blocks are filled with, in turn.
        vocab_size: the number of token ids.
        interface: what goes in and comes out, if it is not tokens and logits; of vectors there is a linear projection.
        layers: blocks.
        d_model: width of the embedding and of everything between the blocks.
        short: width in positions of a causal convolution of each feature by itself before each mixer; 0 for none.
        feed_forward: hidden width of the net behind each mixer, in multiples of `d_model`; 0 for none.
        norm: before each mixer, before each net and at the end: of root mean squares (`rms`), or with mean and bias
            (`layer`).
        tied: the readout is the embedding matrix, without bias. For vectors, and where outputs are other than inputs,
            there is nothing to tie.
        dropout: rate on the embedding and on both branches of a block while training.
    """

    accepts = ("tokens", "vectors")
    recommended_training: ClassVar[dict[str, float]] = {"lr": 3e-3}

    def __init__(
        self,
        vocab_size: int,
        *,
        mixers: Sequence[Mixer],
        layers: PositiveInt = 2,
        d_model: PositiveInt = 32,
        short: NonNegativeInt = 0,
        feed_forward: NonNegativeInt = 2,
        norm: Norm = "rms",
        tied: bool = True,
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
        interface: Interface | None = None,
    ) -> None:
        super().__init__()
        interface = either(vocab_size, interface)
        self.embedding = input_layer(interface, d_model)
        if interface.input == "tokens":
            nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(
                mixers[index % len(mixers)].build(d_model),
                d_model=d_model,
                short=short,
                feed_forward=feed_forward,
                norm=norm,
                dropout=dropout,
            )
            for index in range(layers)
        )
        self.norm = norm_of(norm, d_model)
        tied = tied and interface.input == "tokens" and interface.input_size == interface.output_size
        self.head = None if tied else nn.Linear(d_model, interface.output_size, bias=False)
        if all(isinstance(block.mixer, OffersState) for block in self.blocks):
            self.initial_state, self.step = self._initial_state, self._step  # what makes it an `OffersState`

    @classmethod
    def mixers(cls, **arguments: Any) -> list[Mixer]:
        """What these arguments, or those among them that say so, fill the blocks with."""
        raise NotImplementedError

    @classmethod
    def check_arguments(cls, *, d_model: int, **arguments: Any) -> None:
        """Refuse a mixer that is not there, or does not take its arguments."""
        for mixer in cls.mixers(**arguments):
            mixer.check(d_model)

    @classmethod
    def files(cls, **arguments: Any) -> list[Path]:
        """Those of mixers that were asked for by name."""
        return [file for mixer in cls.mixers(**arguments) for file in mixer.files]

    def _initial_state(self, batch_size: int) -> list[Any]:
        blocks: Any = self.blocks
        return [block.start(batch_size) for block in blocks]

    def _step(
        self, x: Shaped[Tensor, "batch *width"], state: list[Any]
    ) -> tuple[Float[Tensor, "batch out"], list[Any], list[Mapping[str, Tensor]]]:
        x = self.dropout(self.embedding(x))
        blocks: Any = self.blocks
        states, gates = [], []
        for block, before in zip(blocks, state, strict=True):
            x, after, named = block.next(x, before)
            states.append(after)
            gates.append(named)
        return self.read_out(x), states, gates

    def forward(self, tokens: Shaped[Tensor, "batch time *width"]) -> Float[Tensor, "batch time out"]:
        x = self.dropout(self.embedding(tokens))
        for block in self.blocks:
            x = block(x)
        return self.read_out(x)

    def read_out(self, x: Float[Tensor, "*_ d_model"]) -> Float[Tensor, "*_ out"]:
        """Logits, or numbers."""
        y = self.norm(x)
        outputs: Tensor = F.linear(y, self.embedding.weight) if self.head is None else self.head(y)
        return outputs


def parameters_of(code: Callable[..., Any], without: Sequence[str] = ()) -> list[inspect.Parameter]:
    """What a class or function takes, with types in place of their names."""
    function: Any = vars(code)["__init__"] if isinstance(code, type) else code
    types = get_type_hints(function, include_extras=True)
    found = inspect.signature(code).parameters
    return [each.replace(annotation=types.get(name, Any)) for name, each in found.items() if name not in without]


COMMON = parameters_of(Residual, without=("mixers", "vocab_size", "interface"))
"""The parameters that all models made of mixers take."""

_, _, COMMON_TEXT = inspect.cleandoc(Residual.__doc__ or "").partition("filled with, in turn.\n")
"""What they are."""


def made_of(name: str, mixers: Callable[..., list[Mixer]], own: Sequence[inspect.Parameter], text: str) -> type[Any]:
    """A model that is `Residual` with these mixers; it takes arguments of its own and those of `Residual`.

    Args:
        name: of the class.
        mixers: from its own arguments to what its blocks are filled with.
        own: its own arguments.
        text: its documentation.

    Raises:
        TypeError: two arguments have one name.
    """
    names, common = {each.name for each in own}, {each.name for each in COMMON}
    if both := names & {*common, "vocab_size", "interface"}:
        raise TypeError(f"{name} and the backbone both have an argument {min(both)!r}; rename it")

    def chosen(cls: type[Residual], /, **arguments: Any) -> list[Mixer]:
        return mixers(**{each: value for each, value in arguments.items() if each in names})

    def build(self: Residual, vocab_size: int, *, interface: Interface | None = None, **arguments: Any) -> None:
        given = signature.bind(self, vocab_size, **arguments)
        given.apply_defaults()
        rest = {each: given.kwargs[each] for each in common}
        Residual.__init__(self, vocab_size, mixers=self.mixers(**given.kwargs), **rest, interface=interface)

    fixed = inspect.signature(build).parameters
    keywords = [each.replace(kind=each.KEYWORD_ONLY) for each in (*own, *COMMON)]
    signature = inspect.Signature([fixed["self"], fixed["vocab_size"], *keywords, fixed["interface"]])
    build.__signature__ = signature  # type: ignore[attr-defined]
    build.__annotations__ = {name: each.annotation for name, each in signature.parameters.items() if name != "self"}
    text = f"{inspect.cleandoc(text)}\n\nOf the backbone:\n{COMMON_TEXT}"
    members = {"__init__": build, "mixers": classmethod(chosen), "__module__": mixers.__module__, "__doc__": text}
    return type(name, (Residual,), members)


def model_of(mixer: type[nn.Module]) -> type[Any]:
    """The model that is the backbone with this mixer in every block. By its name, `backbone` finds the mixer.

    Args:
        mixer: its constructor takes `width` and arguments of its own, annotated, all by keyword. It maps `batch time
            width` to the same, causally, and may offer its state (`initial_state` and `step`, see
            `harness.offers.OffersState`). A static method `check_arguments(width=..., ...)` may raise ValueError.
    """

    def always(**arguments: Any) -> list[Mixer]:
        return [Mixer(mixer, arguments)]

    always.__module__ = mixer.__module__
    own = parameters_of(mixer, without=("width",))
    model = made_of(f"{mixer.__name__}Model", always, own, mixer.__doc__ or "")
    model.mixer = mixer
    return model


def any_mixer(mixer: str = "attention") -> list[Mixer]:
    """Any mixer in a residual backbone: yours is a class of ten lines.

        class Mixer(nn.Module):
            def __init__(self, width: int, *, decay: float = 0.9) -> None: ...
            def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]: ...

        harness run --model backbone:mixer=./my.py:Mixer:decay=0.5,layers=1 --model backbone:mixer=delta_net

    A block is x + mixer(short(norm(x))), then x + net(norm(x)); x starts as the embedding, and is read out behind a
    norm. What a mixer gives at a position depends on that position and earlier ones: `harness check` finds one that
    sees the future. It may offer its state (`initial_state` and `step`; see `harness.offers.OffersState`), and then
    the model does. A static method `check_arguments(width=..., ...)` may raise ValueError before anything is built,
    and `files(...)` gives the paths of what it reads, as those of plugins do (`harness.contracts`).

    A layer of a library is a mixer as it is, where its constructor calls the number of features `width`, `d_model`,
    `hidden_size` or `dim`; of several outputs the first is taken (flash-linear-attention, on a GPU):

        harness run --device cuda --model 'backbone:mixer="fla.layers:GatedLinearAttention:num_heads=2"'

    Args:
        mixer: written as a model is: `./my.py:Mixer`, `package.module:Mixer`, or the name of a model that is made of
            one (`delta_net`); its own arguments follow behind another colon, in double quotes if there are several:
            `mixer="./my.py:Mixer:decay=0.5,heads=2"`.
    """
    return [find_mixer(mixer)]


def two_mixers(first: str = "attention", second: str = "linear_attention") -> list[Mixer]:
    """Blocks of two kinds in turn, in a residual backbone (as in R. Lieber et al., "Jamba", 2024; S. De et al.,
    "Griffin", 2024).

        harness run --model hybrid:first=attention,second=delta_net:key=8,layers=4

    Args:
        first: the mixer of the first block, the third, ...; written as for the model `backbone`.
        second: of the second, the fourth, ...
    """
    return [find_mixer(first), find_mixer(second)]


Backbone = made_of("Backbone", any_mixer, parameters_of(any_mixer), any_mixer.__doc__ or "")
Hybrid = made_of("Hybrid", two_mixers, parameters_of(two_mixers), two_mixers.__doc__ or "")
