"""What contributors and hosted services run exists: targets, hooks, pinned tools, forms."""

import re
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

yaml = pytest.importorskip("yaml", reason="comes with the dev extra")
pytest.importorskip("ruff", reason="comes with the dev extra")

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TARGETS = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def read(path: Path) -> Any:
    """A YAML file; `on` stays a word, as hosted services take it."""
    return yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)


def made(text: str) -> list[str]:
    """The targets of every `make` in a text, without settings such as `PYTHON=python`."""
    commands = re.findall(r"(?:^    +|`)make ([^`\n]+)", text, re.MULTILINE)
    return [word for command in commands for word in command.split() if "=" not in word]


@pytest.mark.parametrize("path", sorted(ROOT.glob(".github/workflows/*.yml")), ids=lambda path: path.name)
def test_workflows_run_what_exists(path: Path) -> None:
    """Every job has commands, and every `make` among them a target."""
    workflow = read(path)
    assert workflow["on"]
    for job in workflow["jobs"].values():
        commands = [shlex.split(step["run"]) for step in job["steps"] if "run" in step]
        assert commands
        for program, *words in commands:
            assert program in ("make", "test"), program
            if program == "make":
                targets = {word for word in words if "=" not in word}
                assert targets, words
                assert targets <= set(TARGETS)


def test_every_python_that_is_promised_is_tested() -> None:
    """The matrix has the versions of the classifiers."""
    matrix = read(ROOT / ".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    names = (name.partition("Python :: ")[2] for name in PROJECT["classifiers"])
    assert matrix == [name for name in names if re.fullmatch(r"3\.\d+", name)]


def test_the_hooks_of_a_commit_are_installed() -> None:
    """They are programs of the environment that `make` sets up, and download nothing."""
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        program = Path(shlex.split(hook["entry"])[0])
        assert program.parent == Path(".venv/bin")
        assert (Path(sys.executable).parent / program.name).exists(), program


def test_the_hooks_check_what_make_checks() -> None:
    """A commit that the hooks let through passes `make check`."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^check:.*\n((?:\t.+\n)+)", makefile, re.MULTILINE)
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    entries = [hook["entry"] for hook in repository["hooks"]]
    commands = re.findall(r"\$\(BIN\)/(\S+(?: [a-z]+)?)", recipe)
    assert len(commands) == len(recipe.splitlines())
    for command in commands:
        assert any(entry.startswith(f".venv/bin/{command}") for entry in entries), command


def test_every_tool_is_pinned() -> None:
    """What the extras bring has one line, within the range of the extra; nothing else has."""
    text = (ROOT / "constraints-dev.txt").read_text(encoding="utf-8")
    pinned = dict(line.split("==") for line in text.splitlines() if not line.startswith("#"))
    core = {Requirement(line).name for line in PROJECT["dependencies"]}
    extras = [Requirement(line) for lines in PROJECT["optional-dependencies"].values() for line in lines]
    wanted = [each for each in extras if each.name not in core | {PROJECT["name"]}]
    assert sorted(pinned) == sorted({each.name for each in wanted})
    for each in wanted:
        assert pinned[each.name] in each.specifier, each


def test_the_forms_ask_something() -> None:
    """Every form of an issue has a name, a purpose, and questions with ids of their own."""
    forms = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
    assert len(forms) == 3
    for path in forms:
        form = read(path)
        assert form["name"], path
        assert form["description"], path
        ids = [question["id"] for question in form["body"]]
        assert ids, path
        assert len(set(ids)) == len(ids), path
        assert all(question["type"] in ("input", "textarea") for question in form["body"]), path
        assert all(question["attributes"]["label"] for question in form["body"]), path


def test_what_contributors_are_told_exists() -> None:
    """Targets of make, programs of the environment, files and commands of the harness."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert made(text)
    assert set(made(text)) <= set(TARGETS)
    for program in re.findall(r"\.venv/bin/([\w-]+)", text):
        assert (Path(sys.executable).parent / program).exists(), program
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()  # what commands write
    for path in re.findall(r"`([\w./-]+(?:/|\.md|\.txt|\.toml|\.yml|\.py))`", text):
        assert f"/{path}" in ignored or path == "__init__.py" or (ROOT / path).exists(), path


def test_everything_asks_for_the_same_python() -> None:
    """The project, the packages it writes and its examples; and what make refuses is what pip refuses."""
    oldest = PROJECT["requires-python"]
    others = [*ROOT.glob("examples/*/pyproject.toml"), *ROOT.glob("harness/templates/*/pyproject.toml.txt")]
    assert len(others) == 6
    for path in others:
        assert f'requires-python = "{oldest}"' in path.read_text(encoding="utf-8"), path
    numbers = oldest.removeprefix(">=")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"sys.version_info < ({numbers.replace('.', ', ')})" in makefile
    assert f"Python {numbers} or newer" in makefile
    assert f"Python {numbers} or newer" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
