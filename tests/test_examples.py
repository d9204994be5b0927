"""The example packages, installed by pip as an outsider's would be."""

import shlex
from pathlib import Path

import pytest
from installed import ROOT, environment, run

EXAMPLES = {"min-gru": "model", "selective-copying": "task", "state-memory": "probe"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment, with the examples."""
    settings = environment(tmp_path_factory.getbasetemp())
    sources = shlex.join(str(ROOT / "examples" / name) for name in EXAMPLES)
    run(f"pip install -q {sources}", tmp_path_factory.mktemp("examples"), settings)
    return settings


def test_they_work_with_one_another_and_with_the_built_in_ones(installed: dict[str, str], tmp_path: Path) -> None:
    """A model, a task and a probe of three packages that do not know one another."""
    words = "--seeds 1 --training steps=5 --examples 32 --jobs 1"
    shown = run(
        f"harness run --model min-gru:hidden=8 --model lstm:hidden=8 --task selective-copying:lengths=[8,16] "
        f"--probe accuracy --probe state-memory:examples=64 {words}",
        tmp_path,
        installed,
    )
    assert "min-gru:hidden=8" in shown
    assert "lstm:hidden=8" in shown
    assert "readable" in shown


def test_their_own_tests_pass(installed: dict[str, str], tmp_path: Path) -> None:
    """With plain pytest, outside the repository's configuration; each package tests every check."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    tests = shlex.join(str(ROOT / "examples" / name / "tests") for name in EXAMPLES)
    plain = {**installed, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    shown = run(f"python -m pytest -v -p no:cacheprovider -c pytest.ini {tests}", tmp_path, plain)
    for check in ("causal", "same_seed", "model_untouched"):
        assert f"test_conforms[{check}] PASSED" in shown
    assert "test_the_scan_is_the_loop[200] PASSED" in shown


def test_each_package_is_described() -> None:
    """The overview names every example, and there is nothing else beside them."""
    text = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert {path.parent.name for path in (ROOT / "examples").glob("*/pyproject.toml")} == set(EXAMPLES)
    for name, kind in EXAMPLES.items():
        assert f"| `{name}` | a {kind}: " in text
