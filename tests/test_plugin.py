"""A plugin in use: resolved once for a plan and once for a trial, and built from arguments of its own each time."""

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import SHORT

import harness
from harness.errors import PluginError
from harness.plugin import planned, resolve
from harness.registry import default_registry
from harness.suites import Request
from harness.targets import find_entry, load_definition

LISTS = """
    class M:
        def __init__(self, *, sizes: list[int] = [1]):
            sizes.append(2)
            self.sizes = sizes
"""

COUNTING = """
    from pathlib import Path
    import torch

    class M(torch.nn.Module):
        def __init__(self, vocab_size: int, *, width: int = 4):
            super().__init__()
            self.read = torch.nn.Embedding(vocab_size, width)
            self.write = torch.nn.Linear(width, vocab_size)

        def forward(self, tokens):
            return self.write(self.read(tokens))

        @staticmethod
        def check_arguments(width):
            with Path("checks").open("a") as file:
                file.write("x")
"""


@pytest.mark.parametrize("text", ["{path}:M", "{path}:M:sizes=[1]"])
def test_what_one_instance_does_with_its_arguments_is_its_own(plugin_file: Callable[..., str], text: str) -> None:
    """The next one, and the record, have what was asked for."""
    request = Request.model_validate(text.format(path=plugin_file(LISTS)))
    plugin = resolve(load_definition(find_entry(default_registry(), "model", request.name)), request)
    assert [plugin.construct().sizes for _ in range(2)] == [[1, 2], [1, 2]]
    assert plugin.use.arguments == {"sizes": [1]}


def test_a_plugin_is_checked_once_per_trial(
    plugin_file: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And once for the plan, however often it is built: checks may read large files."""
    path = plugin_file(COUNTING)
    monkeypatch.chdir(tmp_path)
    harness.run(f"{path}:M", SHORT, ["accuracy", "grad_reach"], seeds=3, examples=4, training={"steps": 1})
    assert len(Path("checks").read_text(encoding="utf-8")) == 1 + 3


def test_what_is_planned_is_what_runs(plugin_file: Callable[..., str], tmp_path: Path) -> None:
    """A file that the arguments name has changed since: nobody could tell what was measured."""
    source = """
        class M:
            files = staticmethod(lambda file: [file])
            def __init__(self, *, file: str): ...
        """
    data = tmp_path / "data.txt"
    data.write_text("one", encoding="utf-8")
    request = Request(name=f"{plugin_file(source)}:M", arguments={"file": str(data)})
    use = resolve(load_definition(find_entry(default_registry(), "model", request.name)), request).use
    assert planned(default_registry(), "model", use).use == use
    data.write_text("another", encoding="utf-8")
    with pytest.raises(PluginError, match="has changed since this run was planned; run it again"):
        planned(default_registry(), "model", use)
