"""A gated convolution as long as the sequence, as a mixer."""

import math
from typing import Any

import torch
from harness_plugins.models.backbone import ShortConvolution, model_of
from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor, nn


class Hyena(nn.Module):
    """A convolution whose filter is as long as the sequence, between two gates.

        q, k, v = short convolutions of W x_t
        y_t = q_t (D k_t v_t + sum_s h_s k_{t-s} v_{t-s}),  output = W_o y_t

    M. Poli et al., "Hyena hierarchy: towards larger convolutional language models", 2023, of order 2. The filter h_s of
    each feature is a small net of the distance s with sine units, under a window that falls as exp(-s/tau), with a tau
    of its own from `horizon` / 10 to `horizon`. The net sees s as multiples of `horizon` and not, as in the paper, of
    the longest sequence: the filter is the same at any length, and there is no longest one. Convolutions are products
    of Fourier transforms, in a time that grows as T log T.

    A step would need all positions before it, so that there is no state to offer.

    Args:
        width: of what comes in and goes out.
        horizon: the distance in tokens over which the slowest window falls to 1/e.
        bands: frequencies of the sines and cosines of the distance that the net sees: 1, 2, ... in a horizon.
        hidden: width of the net.
    """

    def __init__(
        self, width: int, *, horizon: PositiveInt = 64, bands: PositiveInt = 8, hidden: PositiveInt = 32
    ) -> None:
        super().__init__()
        self.horizon = horizon
        self.bands = bands
        self.inputs = nn.Linear(width, 3 * width)
        self.short = ShortConvolution(3 * width, 3)
        self.net = nn.Sequential(
            nn.Linear(1 + 2 * bands, hidden), Sine(), nn.Linear(hidden, hidden), Sine(), nn.Linear(hidden, width)
        )
        self.skip = nn.Parameter(torch.randn(width))
        self.outputs = nn.Linear(width, width)

    def filters(self, time: int) -> Float[Tensor, "width time"]:
        """h_0, ..., h_{time - 1} of each feature. The windows have unit energy, so that all features have one scale."""
        exact = torch.promote_types(self.skip.dtype, torch.float32)  # bfloat16 cannot count beyond 256
        like: dict[str, Any] = {"dtype": exact, "device": self.skip.device}
        rates = torch.logspace(1, 0, len(self.skip), **like) / self.horizon
        distance = torch.arange(time, **like)[:, None]
        angles = 2 * math.pi / self.horizon * distance * torch.arange(1, self.bands + 1, **like)
        seen = torch.cat((distance / self.horizon, angles.sin(), angles.cos()), -1)
        window = (2 * rates).sqrt() * (-rates * distance).exp()
        filters: Tensor = (self.net(seen.to(self.skip.dtype)) * window).mT
        return filters

    def forward(self, x: Float[Tensor, "batch time width"]) -> Float[Tensor, "batch time width"]:
        q, k, v = self.short(self.inputs(x)).chunk(3, -1)
        gated = k * v
        mixed = convolved(gated.mT, self.filters(x.shape[1])).mT
        outputs: Tensor = self.outputs(q * (self.skip * gated + mixed))
        return outputs


class Sine(nn.Module):
    """sin(10 x): high frequencies from the beginning, as in the paper's filters (appendix D.3)."""

    def forward(self, x: Float[Tensor, "*_"]) -> Float[Tensor, "*_"]:
        return (10 * x).sin()


def convolved(
    x: Float[Tensor, "batch width time"], filters: Float[Tensor, "width time"]
) -> Float[Tensor, "batch width time"]:
    """sum_s filters_s x_{t-s}, by a transform twice as long, in which the end does not reach the beginning."""
    time = x.shape[-1]
    size = 2 ** math.ceil(math.log2(2 * time))  # of which transforms are fast
    single = torch.promote_types(x.dtype, torch.float32)  # there is none of half precision
    spectrum = torch.fft.rfft(x.to(single), size) * torch.fft.rfft(filters.to(single), size)
    found: Tensor = torch.fft.irfft(spectrum, size)[..., :time]
    return found.to(x.dtype)


HyenaModel = model_of(Hyena)
