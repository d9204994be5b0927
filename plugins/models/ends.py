"""The two ends of a model: from what a task gives to vectors, and from vectors to what it asks for."""

from torch import nn

from harness import Interface


def either(vocab_size: int, interface: Interface | None) -> Interface:
    """What the model is built for: tokens in, logits out, if nothing else is said."""
    return interface or Interface(vocab_size, vocab_size)


def input_layer(interface: Interface, width: int) -> nn.Module:
    """A vector for each token; of real vectors a linear projection."""
    if interface.input == "vectors":
        return nn.Linear(interface.input_size, width)
    return nn.Embedding(interface.input_size, width)


def check_dropout(dropout: float, layers: int) -> None:
    """Refuse dropout between the layers of a model that has one.

    Raises:
        ValueError: it has.
    """
    if dropout and layers == 1:
        raise ValueError(f"dropout={dropout:g} is between layers, and there is one layer; use layers=2 or dropout=0")
