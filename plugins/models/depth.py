"""A deep net of equal layers, plain or residual: what depth does to training."""

from typing import ClassVar, Literal

from harness_plugins.models.ends import either, input_layer
from jaxtyping import Float, Shaped
from pydantic import PositiveInt
from torch import Tensor, nn

from harness import Interface

Init = Literal["default", "xavier", "orthogonal"]


class Layer(nn.Module):
    """tanh(W norm(h) + b), added to h where it is residual."""

    def __init__(self, width: int, residual: bool, norm: bool, init: Init) -> None:
        super().__init__()
        self.residual = residual
        self.norm = nn.LayerNorm(width) if norm else nn.Identity()
        self.linear = nn.Linear(width, width)
        if init != "default":
            {"xavier": nn.init.xavier_normal_, "orthogonal": nn.init.orthogonal_}[init](self.linear.weight)
            nn.init.zeros_(self.linear.bias)

    def forward(self, h: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        """One layer further."""
        branch: Tensor = self.linear(self.norm(h)).tanh()
        return h + branch if self.residual else branch


class Depth(nn.Module):
    """Layers of tanh units over each position by itself: plain, h <- tanh(W h), or residual, h <- h + tanh(W LN(h)).

    A linear projection in front makes vectors of the input, another one at the end the outputs; both start as PyTorch
    has them. What a plain net can do depends on how its weights start: by X. Glorot and Y. Bengio, "Understanding the
    difficulty of training deep feedforward neural networks" (2010), gradients keep their size if the variance of a
    weight is 1/width; A. Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear neural
    networks" (2014), start from rotations. Residual connections: K. He et al., "Deep residual learning for image
    recognition" (2016).

    Args:
        vocab_size: the number of token ids.
        interface: what goes in and comes out, if it is not tokens and logits.
        layers: how many.
        width: units of a layer.
        residual: whether a layer adds to its input.
        norm: whether a layer begins with a layer norm.
        init: how the weights of the layers start. `default`: as `nn.Linear` has them, uniform with variance
            1/(3 width), biases too. `xavier`: normal with variance 1/width. `orthogonal`: random rotations. Biases
            of these two start at 0.
    """

    accepts = ("tokens", "vectors")
    recommended_training: ClassVar[dict[str, float]] = {"lr": 1e-3}

    def __init__(
        self,
        vocab_size: int,
        *,
        layers: PositiveInt = 2,
        width: PositiveInt = 32,
        residual: bool = True,
        norm: bool = True,
        init: Init = "default",
        interface: Interface | None = None,
    ) -> None:
        super().__init__()
        interface = either(vocab_size, interface)
        self.embedding = input_layer(interface, width)
        self.layers = nn.Sequential(*(Layer(width, residual, norm, init) for _ in range(layers)))
        self.head = nn.Linear(width, interface.output_size)

    def forward(self, tokens: Shaped[Tensor, "batch time *width"]) -> Float[Tensor, "batch time out"]:
        outputs: Tensor = self.head(self.layers(self.embedding(tokens)))
        return outputs
