"""Tiny models of transformers, and a tokenizer, for tests: nothing is downloaded."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import Interface

if TYPE_CHECKING:
    from harness_plugins.models.hf import HF

COMMON = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
WIDE = {**COMMON, "intermediate_size": 32}
GROUPED = {**WIDE, "num_key_value_heads": 2, "head_dim": 8}

SETTINGS: dict[str, dict[str, Any]] = {
    "gpt2": {**COMMON, "max_position_embeddings": 24},
    "bert": WIDE,
    "llama": GROUPED,
    "qwen3": GROUPED,
    "gpt_neox": WIDE,
    "opt": {**COMMON, "word_embed_proj_dim": 32, "ffn_dim": 32, "max_position_embeddings": 24},
    "mistral": {**GROUPED, "sliding_window": 3},
    "gemma2": GROUPED,
    "mamba": {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8},
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4},
    "jamba": {
        **WIDE,
        "num_key_value_heads": 2,
        "num_experts": 2,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "mamba_d_state": 8,
    },
    "recurrent_gemma": {**COMMON, "num_hidden_layers": 3, "intermediate_size": 64, "lru_width": 32},
}
"""Architectures with the smallest settings that keep what is particular about them."""

TEXT = [
    "The keys to the cabinet are here .",
    "The key to the cabinets is here .",
    "The authors near the hotel laugh .",
    "The author near the hotels laughs .",
]


def request(architecture: str, **more: Any) -> str:
    """What a user would type for one of these models."""
    from harness.written import format_arguments

    return f"hf:config={architecture},{format_arguments({**SETTINGS[architecture], **more})}"


def tiny(architecture: str, **more: Any) -> "HF":
    """A model that reads recall's tokens."""
    import torch
    from harness_plugins.models.hf import HF

    torch.manual_seed(0)
    return HF(Interface(18, 18), config=architecture, **{**SETTINGS[architecture], **more}).eval()


def save(folder: Path, architecture: str = "gpt2", tokenizer: Any = None) -> Path:
    """A model with random weights in a folder, with a tokenizer beside it if one is given."""
    import torch
    from harness_plugins.models.hf_config import build

    size = 40 if tokenizer is None else len(tokenizer)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        build(architecture, size, SETTINGS[architecture], torch.float32).save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    return folder


def tokenizer(kind: str, text: Sequence[str] = TEXT, **more: Any) -> Any:
    """A tokenizer of a kind, trained on a text, as transformers wraps it."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<unk>", "<s>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer: Any
    if kind.startswith("bytes"):
        made = Tokenizer(models.BPE())
        trim = kind == "bytes, trimmed"
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=trim)
        made.decoder = decoders.ByteLevel()
        size = 290 if kind != "bytes, unmerged" else len(special) + len(alphabet)
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=alphabet)
    elif kind == "pieces":
        made = Tokenizer(models.Unigram())
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=60, special_tokens=special, unk_token="<unk>")
    elif kind == "lower case":
        made = Tokenizer(models.WordPiece(unk_token="<unk>"))
        made.normalizer = normalizers.Lowercase()
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(vocab_size=60, special_tokens=special)
    else:
        made = Tokenizer(models.WordLevel(unk_token="<unk>"))
        made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        trainer = trainers.WordLevelTrainer(special_tokens=special)
    made.train_from_iterator(text, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", **{"bos_token": "<s>", **more})


KINDS = ("bytes", "bytes, trimmed", "bytes, unmerged", "pieces", "lower case", "words")


def blimp(path: Path, rows: list[dict[str, str]]) -> Path:
    """A file of JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
