"""A model in a local folder, as `save_pretrained` or a download leaves it: what must be there, and how to load it."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from harness_plugins.models.hf_attention import attention_for
from harness_plugins.models.hf_config import quiet, transformers
from harness_plugins.models.hf_tokenizer import TextTokenizer

WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json", "vocab.txt", "tekken.json")
DECIDING = (".json", ".safetensors", ".bin", ".gguf", ".model", ".txt")
"""Endings of the files that decide what a model answers."""


def check_folder(path: str, gguf_file: str | None) -> None:
    """Refuse a folder that holds no model, or one whose code would have to be run.

    Raises:
        ValueError: saying which file is missing, or what the model is.
    """
    folder = Path(path)
    if folder.is_file():
        gguf = f",gguf_file={folder.name}" if folder.suffix == ".gguf" else ""
        raise ValueError(f"{path!r} is a file; give its folder: path={folder.parent}{gguf}")
    if not folder.is_dir():
        hint = "to download a model of that name from the Hugging Face hub, add hub=true"
        raise ValueError(f"there is no folder {path!r} (from {str(Path.cwd())!r}); {hint}")
    if gguf_file is not None:
        if not (folder / gguf_file).is_file():
            there = ", ".join(sorted(file.name for file in folder.glob("*.gguf"))) or "none"
            raise ValueError(f"there is no file {gguf_file!r} in {path!r}; GGUF files there: {there}")
        for package in ("gguf", "accelerate"):
            _import(package)
        return
    if not (folder / "config.json").is_file():
        files = sorted(file.name for file in folder.glob("*.gguf"))
        hint = f"; to read the GGUF file there, add gguf_file={files[0]}" if files else ""
        raise ValueError(f"the folder {path!r} holds no model: it has no config.json{hint}")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kind = str(config.get("model_type"))
    if config.get("auto_map") and kind not in transformers().CONFIG_MAPPING:
        raise ValueError(
            f"the model in {path!r} is {kind!r}, which transformers lacks: it needs code that the folder brings along, "
            "and such code is never run. Write a model plugin for it: harness new model NAME"
        )
    found = [name for name in WEIGHTS if (folder / name).is_file()]
    if not found:
        raise ValueError(f"the folder {path!r} has no weights: none of {', '.join(WEIGHTS)}")
    if found[0].endswith(".index.json"):
        index = json.loads((folder / found[0]).read_text(encoding="utf-8"))
        missing = sorted({name for name in index["weight_map"].values() if not (folder / name).is_file()})
        if missing:
            raise ValueError(f"the folder {path!r} lacks a part of its weights: {', '.join(missing)}")


def _import(package: str) -> None:
    try:
        __import__(package)
    except ImportError as error:
        message = f'reading a GGUF file needs the package {package}; pip install "sequence-harness[hf]"'
        raise ValueError(message) from error


def check_tokenizer(path: str, gguf_file: str | None) -> None:
    """Refuse a folder without a tokenizer (a GGUF file brings its own).

    Raises:
        ValueError: saying which files could hold one.
    """
    if gguf_file is None and not any((Path(path) / name).is_file() for name in TOKENIZERS):
        raise ValueError(
            f"the folder {path!r} has no tokenizer: none of {', '.join(TOKENIZERS)}. Save it beside the model: "
            "tokenizer.save_pretrained(folder)"
        )


def deciding_files(path: str, gguf_file: str | None) -> list[Path]:
    """The files that decide the result: the GGUF file, or everything in the folder that is read."""
    folder = Path(path)
    if gguf_file is not None:
        return [folder / gguf_file]
    return sorted(file for file in folder.iterdir() if file.suffix in DECIDING and file.is_file())


def load_model(path: str, gguf_file: str | None, hub: bool, dtype: torch.dtype) -> Any:
    """The model with its weights.

    Raises:
        ValueError: some weights are missing, so that they would be random.
    """
    library = transformers()
    with quiet():
        model, found = library.AutoModelForCausalLM.from_pretrained(
            path, **_where(gguf_file, hub), dtype=dtype, output_loading_info=True
        )
        if implementation := attention_for(model.config):
            model.set_attn_implementation(implementation)
    if missing := sorted(found["missing_keys"]):
        raise ValueError(
            f"{path!r} lacks {len(missing)} weights of a {type(model).__name__} ({', '.join(missing[:3])}, ...); they "
            "would be random. It may hold a model of another kind"
        )
    return model


def load_tokenizer(path: str, gguf_file: str | None, hub: bool) -> TextTokenizer:
    """The tokenizer, with the number of token ids of the model; kept for the next seed, unless files change."""
    files = [] if hub else deciding_files(path, gguf_file)
    return _load_tokenizer(path, gguf_file, hub, tuple((file, file.stat().st_mtime_ns) for file in files))


@lru_cache(maxsize=4)
def _load_tokenizer(path: str, gguf_file: str | None, hub: bool, files: tuple[object, ...]) -> TextTokenizer:
    library = transformers()
    where = _where(gguf_file, hub)
    with quiet():
        inner = library.AutoTokenizer.from_pretrained(path, **where)
        config = library.AutoConfig.from_pretrained(path, **where)
    return TextTokenizer(inner, config.get_text_config().vocab_size)


def _where(gguf_file: str | None, hub: bool) -> dict[str, Any]:
    """Where to look. Code that a folder brings along is never run, and nobody is asked on standard input whether to."""
    return {"local_files_only": not hub, "trust_remote_code": False} | (
        {} if gguf_file is None else {"gguf_file": gguf_file}
    )
