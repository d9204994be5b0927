"""What `transformers` can build, without importing it, which takes seconds."""

import importlib.util
import re
from pathlib import Path


def causal_models() -> set[str]:
    """The architectures that `hf:config=...` takes, as transformers lists them; none if it is not installed."""
    found = importlib.util.find_spec("transformers")
    if found is None or found.origin is None:
        return set()
    try:
        text = (Path(found.origin).parent / "models" / "auto" / "modeling_auto.py").read_text(encoding="utf-8")
    except OSError:
        return set()
    listed = text.partition("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = ")[2].partition("\n)")[0]
    return set(re.findall(r"\(\"([^\"]+)\", ", listed))
