"""Headline numbers, matrices and claims for tests of reports, and lines of the report on them."""

from record_factory import record

from harness.measurements import Matrix, Scalar
from harness.schema import Record
from harness.suites import Suite


def factor(value: float, verdict: str | None = None, name: str = "per_step_factor", unit: str = "ratio") -> Scalar:
    """A headline number."""
    return Scalar(name=name, unit=unit, value=value, verdict=verdict, headline=True)


def matrix(values: list[list[float]], rows: list[str], columns: list[str]) -> Matrix:
    """A headline matrix of attention."""
    about = {"name": "attention", "unit": "share", "row_label": "head", "column_label": "role", "headline": True}
    return Matrix.model_validate({"values": values, "rows": rows, "columns": columns, **about})


def lines(text: str, *words: str) -> list[str]:
    """The lines that contain all these words, blanks collapsed."""
    return [" ".join(line.split()) for line in text.split("\n") if all(word in line for word in words)]


def claims() -> tuple[list[Record], Suite]:
    """Three claims: one holds, one does not, one has no records."""
    records = [record(factor(0.95 + seed / 100), seed=seed) for seed in range(3)]
    base = {"probe": "accuracy", "metric": "per_step_factor", "value": 0.9}
    found = [
        {**base, "text": "It | works", "comparison": ">", "source": "Table 2"},
        {**base, "text": "It fails", "comparison": "<", "seeds": "median", "margin": 0.01},
        {**base, "text": "GRUs work", "comparison": ">", "model": "gru"},
    ]
    return records, Suite.model_validate({"name": "demo", "experiments": [{"models": ["lstm"]}], "claims": found})
