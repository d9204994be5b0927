"""Who asks for an architecture by its own name hears how transformers has it."""

import sys
from pathlib import Path

import pytest
from harness_plugins.models.hf_names import causal_models

from harness.errors import RequestError
from harness.registry import default_registry


def test_the_names_are_those_that_the_library_has() -> None:
    """Read from its text; the library itself is the reference."""
    pytest.importorskip("transformers")
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    assert causal_models() == set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


@pytest.mark.parametrize(("name", "hint"), [("bloom", True), ("Bloom", True), ("blume", False), ("models", False)])
def test_the_error_says_how_to_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, hint: bool) -> None:
    """Only for what is there, and without importing the library, here one that must not be imported."""
    package = tmp_path / "transformers"
    (package / "models" / "auto").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError", encoding="utf-8")
    listed = 'OTHERS = OrderedDict([\n("models", "M"),\n]\n)\n'
    listed += 'MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = OrderedDict(\n    [\n("bloom", "BloomForCausalLM"),\n    ]\n)\n'
    (package / "models" / "auto" / "modeling_auto.py").write_text(
        listed + listed.replace("MODEL_FOR", "NO"), encoding="utf-8"
    )
    monkeypatch.delitem(sys.modules, "transformers", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RequestError, match=f"there is no model '{name}'") as error:
        default_registry().find("model", name)
    assert ("architecture of that name: hf:config=bloom" in str(error.value)) == hint
    assert ("a small one: hf:config=bloom,hidden_size=64," in str(error.value)) == hint


def test_without_the_library_there_is_no_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor an error of its own."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert causal_models() == set()
