"""Any causal language model of the library `transformers`: pretrained from a folder, or built from a configuration."""

import inspect
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from harness_plugins.models import hf_config, hf_files
from harness_plugins.models.hf_tokenizer import TextTokenizer
from jaxtyping import Float, Int
from torch import Tensor, nn

from harness import Interface, Skip
from harness.preflight import difference, rounding

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

CACHES = ("cache", "past_key_values")
"""What `forward` calls what it keeps: in newer and in older versions of transformers."""


class HF(nn.Module):
    """A causal language model of Hugging Face's `transformers` (`pip install "sequence-harness[hf]"`).

        hf:path=FOLDER                                         pretrained: measured as it is, never trained
        hf:path=FOLDER,gguf_file=NAME.gguf                     the same, from a GGUF file in that folder
        hf:config=mamba,hidden_size=64,num_hidden_layers=2     random weights, to be trained on a task

    A pretrained model faces tasks made of text, through its own tokenizer, or the task it was saved from; any other
    one is built for the vocabulary of its task, with no special tokens, and dropout as its configuration says.

    Attention can be observed and cut wherever transformers calls `scaled_dot_product_attention`: most architectures.
    Models that compute it by hand (Bloom, GPT-Neo, MPT, ...) show their patterns, which then cannot be cut; models with
    capped scores (Gemma 2) are run through that function here.

    Args:
        interface: what the task feeds the model, and wants back.
        path: a folder with a model and, for tasks made of text, its tokenizer.
        gguf_file: the file in that folder that holds the model, if it is a GGUF file.
        config: instead of a path, an architecture by the name transformers gives it (`model_type`).
        dtype: precision of the weights and of all computations.
        hub: let transformers look for `path` on the Hugging Face hub and download it. Otherwise nothing is downloaded.
        settings: with `config`, any setting of that architecture's configuration.
    """

    recommended_training: ClassVar[dict[str, float]] = {"lr": 1e-3}

    def __init__(
        self,
        interface: Interface,
        *,
        path: str | None = None,
        gguf_file: str | None = None,
        config: str | None = None,
        dtype: Literal["float32", "bfloat16", "float16"] = "float32",
        hub: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__()
        if interface.output != "classes":
            raise Skip(f"a language model predicts classes, and the task wants {interface.output}")
        self.outputs = interface.output_size
        needed = max(interface.input_size, interface.output_size)
        if path is not None:
            self.model = hf_files.load_model(path, gguf_file, hub, DTYPES[dtype])
            known = self.model.config.get_text_config().vocab_size
            if known != needed:
                raise Skip(
                    f"the pretrained model has {known} token ids, the task {needed}: it can face tasks made of text, "
                    "which use its tokenizer, and the task it was trained on"
                )
        else:
            assert config is not None
            self.model = hf_config.build(config, needed, settings, DTYPES[dtype])
        self.model.config.use_cache = False
        self.max_length = longest(self.model)
        if shows_attention(self.model):
            self.attention_patterns = self._attention_patterns
        self._cache = next((name for name in CACHES if name in inspect.signature(self.model.forward).parameters), "")
        if self._cache and self._continues():
            self.go_on = self._go_on

    @staticmethod
    def check_arguments(
        path: str | None, gguf_file: str | None, config: str | None, dtype: str, hub: bool, **settings: Any
    ) -> None:
        """Refuse what cannot be loaded or built."""
        hf_config.transformers()
        if (path is None) == (config is None):
            raise ValueError("give either path=FOLDER (pretrained) or config=ARCHITECTURE (random weights)")
        if config is not None:
            if gguf_file is not None or hub:
                raise ValueError("gguf_file and hub belong to path=..., not to config=...")
            hf_config.check(config, settings)
            return
        assert path is not None
        if settings:
            raise ValueError(f"{', '.join(settings)}: a pretrained model has its own settings; leave them out")
        if not hub:
            hf_files.check_folder(path, gguf_file)

    @staticmethod
    def files(path: str | None, gguf_file: str | None, hub: bool, **others: Any) -> list[Path]:
        """The files that decide the result."""
        return [] if path is None or hub else hf_files.deciding_files(path, gguf_file)

    @staticmethod
    def pretrained(path: str | None, **others: Any) -> bool:
        """Whether it comes with its weights."""
        return path is not None

    @staticmethod
    def check_tokenizer(path: str | None, gguf_file: str | None, hub: bool, **others: Any) -> None:
        """Refuse a folder without a tokenizer."""
        if path is not None and not hub:
            hf_files.check_tokenizer(path, gguf_file)

    @staticmethod
    def tokenizer(path: str | None, gguf_file: str | None, hub: bool, **others: Any) -> TextTokenizer | None:
        """The tokenizer of a pretrained model."""
        return None if path is None else hf_files.load_tokenizer(path, gguf_file, hub)

    def get_input_embeddings(self) -> nn.Module:
        """The module that turns tokens into vectors."""
        embeddings: nn.Module = self.model.get_input_embeddings()
        return embeddings

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time vocab"]:
        length = tokens.shape[1]
        if self.max_length is not None and length > self.max_length:
            raise ValueError(f"the input has {length} tokens, but the model has positions for {self.max_length}")
        logits: Tensor = self.model(input_ids=tokens).logits
        return logits[..., : self.outputs]

    def _go_on(self, tokens: Int[Tensor, "batch new"], cache: Any) -> tuple[Float[Tensor, "batch new vocab"], Any]:
        given: Any = self.model(input_ids=tokens, use_cache=True, **{self._cache: cache})
        return given.logits[..., : self.outputs], given[self._cache]

    def _continues(self) -> bool:
        """Whether the architecture's cache gives what one pass gives: that of some takes no several tokens."""
        device = next(self.model.parameters()).device
        probe, was_training, same = torch.tensor([[1, 0, 1, 0, 0, 1]], device=device), self.training, False
        with torch.random.fork_rng(devices=[]), torch.no_grad(), suppress(Exception):
            self.eval()
            parts, cache = [], None
            for piece in probe.split([3, 2, 1], 1):
                outputs, cache = self._go_on(piece, cache)
                parts.append(outputs)
            whole = self(probe)
            same = difference(torch.cat(parts, 1), whole) <= rounding(self, whole)
        self.train(was_training)
        return same

    def _attention_patterns(self, tokens: Int[Tensor, "batch time"]) -> list[Float[Tensor, "batch head time time"]]:
        outputs: Any = self.model(input_ids=tokens, output_attentions=True)
        return list(outputs.attentions)


def longest(model: Any) -> int | None:
    """The longest sequence, if there is a table of positions that ends: an embedding beside that of the tokens."""
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    tokens = model.get_input_embeddings()
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding) and module is not tokens]
    sizes = {table.num_embeddings for table in tables}
    # OPT's table begins with two rows that are never a position
    return limit if limit is not None and sizes & {limit, limit + 2} else None


def shows_attention(model: Any) -> bool:
    """Whether the model computes attention by hand and says what came of it."""
    if model.config._attn_implementation != "eager":
        return False
    parameter = next(model.parameters())
    probe = torch.zeros(1, 2, dtype=torch.long, device=parameter.device)
    was_training = model.training
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        shown = getattr(model.eval()(input_ids=probe, output_attentions=True), "attentions", None) or ()
    model.train(was_training)
    return bool(shown) and all(each is not None and each.shape[-2:] == (2, 2) for each in shown)
