"""The transformer's encoder alone."""

from typing import Annotated, Any, ClassVar

from harness_plugins.models.ends import either, input_layer
from harness_plugins.models.gpt import Norm
from harness_plugins.models.transformer import Block, Position, Positions, check_heads
from jaxtyping import Float, Shaped
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from harness import Interface


class Encoder(nn.Module):
    """Encoder-only transformer: every output sees the whole sequence, padding included.

    The encoder of A. Vaswani et al., "Attention is all you need", 2017, alone as in J. Devlin et al., "BERT", 2019. It
    can be asked whatever does not stand in its input; tasks that ask for the next token skip it. Weights start as
    PyTorch draws them.

    Args:
        vocab_size: the number of token ids.
        interface: what goes in and comes out, if it is not tokens and logits; of vectors there is a linear projection.
        layers: blocks of attention and feed-forward net.
        heads: attention heads per block; they share `d_model` equally.
        d_model: width of the embedding and of everything between the blocks.
        position: `sinusoidal`, added to the embedding, or a `learned` vector for each.
        max_length: the longest sequence in tokens. Only learned positions have a limit.
        norm: layer norm before (`pre`) or after (`post`, as published) the branches.
        dropout: rate on embeddings, attention weights and residual branches while training.
    """

    accepts = ("tokens", "vectors")
    sees = "all"
    recommended_training: ClassVar[dict[str, float]] = {"lr": 1e-3}

    def __init__(
        self,
        vocab_size: int,
        *,
        layers: PositiveInt = 2,
        heads: PositiveInt = 2,
        d_model: PositiveInt = 32,
        position: Position = "sinusoidal",
        max_length: PositiveInt = 120,
        norm: Norm = "pre",
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
        interface: Interface | None = None,
    ) -> None:
        super().__init__()
        check_heads(heads=heads, d_model=d_model)
        interface = either(vocab_size, interface)
        self.embedding = input_layer(interface, d_model)
        self.positions = Positions(d_model, position, max_length)
        self.max_length = self.positions.most
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(d_model, heads, norm, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(d_model) if norm == "pre" else nn.Identity()
        self.head = nn.Linear(d_model, interface.output_size)

    @staticmethod
    def check_arguments(**arguments: Any) -> None:
        """Refuse widths that the heads cannot share."""
        check_heads(**arguments)

    def forward(self, tokens: Shaped[Tensor, "batch time *width"]) -> Float[Tensor, "batch time out"]:
        x = self.dropout(self.embedding(tokens) + self.positions(tokens.shape[1], self.head.weight))
        for block in self.blocks:
            x = block(x, None)
        outputs: Tensor = self.head(self.norm(x))
        return outputs
