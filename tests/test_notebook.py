"""The notebook of the documentation is executed, as whoever opens it would."""

import json
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason="the notebook is executed by nbclient: pip install '.[notebook]'")
pytest.importorskip("ipykernel", reason="the notebook runs in ipykernel: pip install '.[notebook]'")
pytest.importorskip("pandas", reason="the notebook looks at results as data frames: pip install '.[notebook]'")
pytest.importorskip("altair", reason="the notebook draws charts: pip install '.[page]'")

NOTEBOOK = Path(__file__).parent.parent / "docs" / "notebook.ipynb"


def test_the_notebook_runs(tmp_path: Path) -> None:
    """From top to bottom, with less training: it shows answers and charts, compares models, and writes its files."""
    import nbformat

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    (training,) = [cell for cell in notebook.cells if "harness.run(" in cell.source]
    assert '"steps": 200' in training.source
    training.source = training.source.replace('"steps": 200', '"steps": 2').replace("seeds=3", "seeds=1")
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=600, startup_timeout=600, resources=where).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    shown = [str(output.get("data", {}).get("text/html")) for output in outputs]
    assert sum('class="cards"' in text for text in shown) == 1
    assert sum("vega-lite" in text for text in shown) == 2  # charts, as Altair shows them
    assert sum("dataframe" in text for text in shown) == 2
    assert (tmp_path / "reach.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "<svg" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_notebook_is_kept_without_what_it_has_shown() -> None:
    """So that a change of it can be read."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in cells)
