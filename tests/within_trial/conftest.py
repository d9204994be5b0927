"""What the honest model and the innocent probe measure where nobody interferes."""

from pathlib import Path

import pytest
from small_runs import numbers

from within_trial.sources import LOOK, PROBES, model_source, run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With an honest model and an innocent probe."""
    folder = tmp_path_factory.mktemp("within")
    (folder / "honest.py").write_text(model_source(), encoding="utf-8")
    (folder / "look.py").write_text(PROBES + LOOK, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def clean(folder: Path) -> dict[tuple[int, str], str]:
    """What the innocent probe measures where nobody interferes, by seed and stage."""
    results = run(f"{folder}/honest.py:M", folder / "clean", [f"{folder}/look.py:look:turn=-1"], seeds=2)
    assert {record.status for record in results} == {"ok"}
    return {(record.seed, record.stage): numbers(record) for record in results}
