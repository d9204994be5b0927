"""Configurations of `transformers`: what the user may set, and whether a model can be built from it."""

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from harness_plugins.models.hf_attention import attention_for

from harness.errors import did_you_mean, shown

TRANSFORMERS = 'the model hf needs the package transformers; install it with: pip install "sequence-harness[hf]"'

OURS = {"vocab_size", "dtype", "torch_dtype", "architectures", "transformers_version", "_name_or_path", "model_type"}
"""Settings of a configuration that are not the user's: the task or the harness decides them."""

MOST_PARTS = 1000
"""Layers, or experts of a layer: each is built, to see whether the settings go together."""

SPECIAL = ("bos_token_id", "eos_token_id", "pad_token_id")
"""Token ids with a meaning of their own, by default those of a vocabulary that a task does not have."""


def transformers() -> Any:
    """The library, imported when it is first needed.

    Raises:
        ValueError: it is not installed.
    """
    try:
        import transformers
    except ImportError as error:
        raise ValueError(TRANSFORMERS) from error
    return transformers


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars, and nothing below an error, from transformers; its settings come back afterwards."""
    logging = transformers().utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with redirect_stderr(io.StringIO()):  # where it draws the bars that cannot be turned off
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def configuration(model_type: str, vocab_size: int, settings: Mapping[str, Any]) -> Any:
    """The configuration of a causal language model with `vocab_size` token ids and no special ones among them.

    Raises:
        ValueError: there is no such model or setting, or a value that does not fit.
    """
    library = transformers()
    causal = library.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if model_type not in causal:
        guess = did_you_mean(model_type, causal)
        some = f"{len(causal)} are known, for example gpt2, llama, mamba, opt, qwen3"
        raise ValueError(f"transformers has no causal language model config={model_type!r}.{guess} {some}.")
    kind = library.CONFIG_MAPPING[model_type]
    known = (set(kind().to_dict()) | set(kind.attribute_map)) - OURS
    for name in settings:
        if name not in known:
            raise ValueError(
                f"config={model_type} has no setting {name!r}.{did_you_mean(name, known)} Settings: "
                f"{', '.join(sorted(each for each in known if not each.startswith('_')))}."
            )
        value = settings[name]
        if re.search("layer|expert", name) and isinstance(value, int) and value > MOST_PARTS:
            raise ValueError(f"config={model_type} with the setting {name}={shown(value)}: {MOST_PARTS} are the most")
    special = {name: None for name in SPECIAL if name in known}
    given = {kind.attribute_map.get(name, name): None if value == "none" else value for name, value in settings.items()}
    return kind(**{**special, **given, "vocab_size": vocab_size})


def build(model_type: str, vocab_size: int, settings: Mapping[str, Any], dtype: torch.dtype) -> Any:
    """A model with random weights."""
    with quiet():
        config = configuration(model_type, vocab_size, settings)
        return transformers().AutoModelForCausalLM.from_config(
            config, dtype=dtype, attn_implementation=attention_for(config)
        )


def check(model_type: str, settings: Mapping[str, Any]) -> None:
    """Try to build the model, without memory for its weights.

    Raises:
        ValueError: the settings are wrong, or do not go together.
    """
    with quiet(), torch.random.fork_rng(devices=[]):
        configuration(model_type, 1, {})  # so that a wrong name is told from a wrong value
        try:
            with torch.device("meta"):
                build(model_type, 32, settings, torch.float32)
        except NotImplementedError:
            return  # its construction computes with real numbers, so that only building it will tell
        except Exception as error:
            words = " ".join(str(error).split())
            raise ValueError(words if "setting" in words else f"config={model_type} does not fit: {words}") from error
