"""What a model writes when it reads its own outputs: greedy or sampled, from any model of tokens.

The next token comes from the outputs at the last position. A model that offers its state (`OffersState`) or a cache
(`OffersCache`) reads each token once; any other one reads the whole sequence anew for each token, which gives the same.
"""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from harness.capabilities import Capabilities
from harness.offers import OffersCache, OffersState


def generate(
    model: nn.Module,
    prompt: Int[Tensor, "batch time"],
    steps: int,
    *,
    end: int | None = None,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "batch steps"]:
    """The tokens that a model appends to prompts of one length.

    Args:
        model: in evaluation mode; its outputs must have a class for each token that it can read.
        prompt: token ids, on the model's device.
        steps: the most tokens to write.
        end: a token that ends a text: what follows it is `end`, too, and where all texts have ended there are fewer
            steps.
        temperature: 0 takes the likeliest token, the first of equals; else tokens are drawn with the probabilities of
            the logits divided by it.
        generator: on the CPU, draws the tokens; needed for a temperature above 0.

    Raises:
        ValueError: an argument makes no sense, the texts would become longer than the model takes (`max_length`), or
            the model says that its outputs see what comes later.
    """
    _check(model, prompt, steps, temperature, generator)
    written: list[Tensor] = []
    outputs = _Reader(model)
    ended = torch.zeros(len(prompt), dtype=torch.bool, device=prompt.device)
    new = prompt
    with torch.no_grad():
        while len(written) < steps and not ended.all():
            token = _choose(outputs.after(new), temperature, generator)
            if end is not None:
                token = token.masked_fill(ended, end)
                ended = ended | (token == end)
            written.append(token)
            new = token[:, None]
    return torch.stack(written, 1) if written else prompt.new_zeros(len(prompt), 0)


class _Reader:
    """Reads tokens one after another, and knows what was read before."""

    def __init__(self, model: nn.Module) -> None:
        self.model: Any = model
        self.read: Tensor | None = None
        self.kept: Any = None

    def after(self, tokens: Int[Tensor, "batch new"]) -> Float[Tensor, "batch out"]:
        """The outputs at the last of these tokens, which follow all that was read."""
        if isinstance(self.model, OffersCache):
            outputs, self.kept = self.model.go_on(tokens, self.kept)
            return outputs[:, -1]
        if isinstance(self.model, OffersState):
            if self.kept is None:
                self.kept = self.model.initial_state(len(tokens))
            for token in tokens.unbind(1):
                output, self.kept, _ = self.model.step(token, self.kept)
            return output
        self.read = tokens if self.read is None else torch.cat([self.read, tokens], 1)
        last: Tensor = self.model(self.read)[:, -1]
        return last


def _choose(
    logits: Float[Tensor, "batch out"], temperature: float, generator: torch.Generator | None
) -> Int[Tensor, " batch"]:
    if not temperature:
        return logits.argmax(-1)
    chances = (logits.double().cpu() / temperature).softmax(-1)  # there, so that every device draws the same
    return chances.multinomial(1, generator=generator).squeeze(1).to(logits.device)


def _check(model: nn.Module, prompt: Tensor, steps: int, temperature: float, generator: torch.Generator | None) -> None:
    if prompt.ndim != 2 or prompt.is_floating_point():
        raise ValueError(f"a prompt is token ids (batch, time), not {tuple(prompt.shape)} of {prompt.dtype}")
    if not prompt.shape[1]:
        raise ValueError("the prompt is empty; give one token at least, for example the one that begins a text")
    if steps < 0:
        raise ValueError(f"steps = {steps}; give 0 or more")
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature = {temperature}; give 0 for the likeliest token, or a positive number")
    if temperature and generator is None:
        raise ValueError("to draw tokens give a generator, for example torch.Generator().manual_seed(0)")
    says = Capabilities(model)
    if says.sees == "all":
        raise ValueError('the model says that its outputs see all tokens (sees = "all"): it cannot write what follows')
    most, length = says.max_length, prompt.shape[1] + steps
    if most is not None and length > most + 1:  # the last token is written, and not read
        raise ValueError(
            f"{prompt.shape[1]} tokens and {steps} steps are {length} tokens, and the model takes {most} (max_length); "
            "ask for fewer steps"
        )
