"""The page on looking is true: its commands run, in their order, on one run that has all they ask for."""

import re
import shlex
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner
from record_factory import curve, record

pytest.importorskip("altair", reason="pages and charts need the extra `page`")
pytest.importorskip("vl_convert", reason="pages and charts need the extra `page`")
pytest.importorskip("jinja2", reason="pages and charts need the extra `page`")

from harness.cli import main
from harness.store import RunDirectory

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "seeing.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (harness .+)$", PAGE, re.MULTILINE)


def test_every_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On records that are made up instead of trained; each command writes the file that it names."""
    monkeypatch.chdir(tmp_path)
    for name in ("recall", "before", "after"):
        store = RunDirectory(Path("runs") / name)
        store.create()
        models = ("./my.py:LSTM" if name == "after" else "lstm", "gpt", *(["lstm"] if name == "after" else []))
        for n, (model, seed) in enumerate(product(models, range(3))):
            made = record(curve([1, 0.5], [1, 2]), model=model, task="recall:train_max=100", seed=seed)
            store.write_record(made.model_copy(update={"id": f"{n:016x}"}))
    assert len(COMMANDS) > 3
    for command in COMMANDS:
        words = shlex.split(command)[1:]
        said = CliRunner().invoke(main, words)
        assert said.exit_code == 0, f"{command}\n{said.output}"
        if "--out" in words:
            assert Path(words[words.index("--out") + 1]).stat().st_size > 0, command


def test_figures_and_files_of_the_page_are_there() -> None:
    """Whoever moves one changes the page, too."""
    for name in re.findall(r"\]\((?!https?:)([\w.-]+\.(?:png|ipynb|py))\)", PAGE):
        assert (ROOT / "docs" / name).is_file(), name
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make (\w+)`", PAGE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
