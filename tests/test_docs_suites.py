"""The page on suites is true: its suite runs, its claims can be read, and its tables leave nothing out."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import harness
from harness.claims import judge
from harness.cli import main
from harness.plan import make_plan
from harness.registry import default_registry
from harness.suite_files import load_suite
from harness.suites import Claim, Experiment, Suite

PAGE = (Path(__file__).parent.parent / "docs" / "suites.md").read_text(encoding="utf-8")
SUITES = re.findall(r"<!-- file: (\S+) -->\n```toml\n(.*?)```", PAGE, re.DOTALL)
SMALL = {"steps": 2, "batch_size": 4}


def test_every_suite_of_the_page_is_tested() -> None:
    """A block of TOML with experiments is a file that readers save."""
    blocks = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert [text for _, text in SUITES] == [text for text in blocks if "[[experiments]]" in text]
    assert SUITES


@pytest.mark.parametrize(("name", "text"), SUITES, ids=[name for name, _ in SUITES])
def test_the_suites_run(name: str, text: str, tmp_path: Path) -> None:
    """As written it can be planned; with hardly any training, every claim finds its number for every seed."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    suite = load_suite(tmp_path / name)
    assert make_plan(suite, default_registry()).trials
    results = harness.run(suite=suite, training=SMALL, examples=16, out=tmp_path / "run")
    assert {record.status for record in results} == {"ok"}
    verdicts = [judge(claim, results, range(suite.seeds)) for claim in suite.claims]
    assert [list(verdict.numbers) for verdict in verdicts] == [[0, 1, 2]] * len(verdicts)
    words = {"holds", "does not hold", "undecided"}
    assert {verdict.verdict for verdict in verdicts} <= words


def test_the_other_claims_of_the_page_can_be_judged() -> None:
    """Those that stand outside a whole suite fit into the first one."""
    first, *others = [_toml(text) for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)]
    assert others
    for other in others:
        suite = Suite.model_validate(first | other)
        assert suite.claims
        assert make_plan(suite, default_registry()).trials


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the page, in the folder where the file was saved."""
    monkeypatch.chdir(tmp_path)
    for name, text in SUITES:
        Path(name).write_text(text, encoding="utf-8")
    for command in re.findall(r"^    (harness .+)$", PAGE, re.MULTILINE):
        words = shlex.split(command)[1:]
        if words[0] == "run" and "--dry-run" not in words:
            words += ["--seeds", "1", "--training", "steps=1,batch_size=2", "--examples", "4", "--jobs", "1"]
        result = CliRunner().invoke(main, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output


def test_every_field_is_explained() -> None:
    """Of suites, experiments and claims; and what the page shows of the report is about claims that it has."""
    tables = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
    for model in (Suite, Experiment, Claim):
        for field in set(model.model_fields) - {"claims"}:
            assert re.search(rf"`\[*{field}\]*`", tables), f"{model.__name__}.{field}"
    claims = {claim["text"] for _, text in SUITES for claim in Suite.model_validate(_toml(text)).model_dump()["claims"]}
    shown = " ".join(PAGE.partition("## What the report says")[2].split())
    assert sum(text in shown for text in claims) == 3


def _toml(text: str) -> dict[str, object]:
    import tomllib

    return tomllib.loads(text)
