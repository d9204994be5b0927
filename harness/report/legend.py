"""How to read a report: what stands in its tables, and only that."""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from harness.measurements import Matrix, Scalar
from harness.report.conditions import SETTINGS, conditions
from harness.report.elements import Table
from harness.report.grouping import BASELINE, MARK, Group, Row
from harness.report.tables import BELOW
from harness.seeds import MANY_SEEDS, coverage

FAILURES = ("never learned", "partly learned", "forgets with distance", "answers wrongly")
"""Verdicts that another learning rate may change."""

MOST_CASES = 1000
"""Odds beyond one in this many are told no more exactly."""


def legend(groups: Sequence[Group], tables: Sequence[Table]) -> list[str]:
    """One item for each kind of number, special content and verdict that occurs; where to read more about the probes.

    Args:
        groups: what was measured.
        tables: how it is shown.
    """
    rows = [row for each in groups for row in each.measured]
    probes = dict.fromkeys(record.probe.name for row in rows for record in row.ok)
    more = [f"What a probe measures, and how: {', '.join(f'harness show probe {name}' for name in probes)}."]
    return [*_numbers(rows, tables), *_names(groups), *_words(groups), *_one_rate(groups), *more] if rows else []


def _numbers(rows: Sequence[Row], tables: Sequence[Table]) -> Iterator[str]:
    cells = [cell for table in tables for cell in _cells(table)]
    lines = {line for line, _ in cells}

    def any_shows(pattern: str) -> bool:
        return any(re.search(pattern, text) for _, text in cells)

    if any(len(row.ok) > 1 and not row.once for row in rows):
        yield _over_seeds(rows, ranges=any_shows(r"\[.+\.\..+\]") or bool(lines & {*BELOW[1:]}))
    if "±" in lines or any_shows("±"):
        yield (
            "±: one standard error, over the examples. The model was measured once: its weights are given, so that "
            "another seed could only draw other examples."
        )
    if any_shows("NaN"):
        yield "NaN: there is no number, because it is not defined here or could not be measured."
    if any_shows(r"\binf\b"):
        yield "inf: infinite; of a distance: not reached within what was measured (-inf: not even at the nearest)."
    blank = {line for line, text in cells if not text}
    if blank - {*BELOW}:
        yield "Blank: not measured for this model."
    if any(row.once for row in rows) and any(
        column.cells.count("fixed") for table in tables for column in table.columns
    ):
        yield "fixed: not repeated, since weights and data are fixed."
    if any(row.baseline for row in rows):
        yield f"{BASELINE} behind a model: it is there to compare the others with."
    if any(row.suspect for row in rows):
        yield f"{MARK} behind a model: do not read its numbers without the warnings above."


def _over_seeds(rows: Sequence[Row], ranges: bool) -> str:
    """What the numbers of rows with several seeds are, and what their range is worth."""
    text = "A number is the median over seeds"
    if ranges:
        told = {
            False: "the lowest and the highest where they differ ([lowest..highest], or lines min and max)",
            True: f"the 10 % and 90 % quantiles of more than {MANY_SEEDS} seeds ([80 %: low..high], or lines)",
        }
        text += f", with {'; with '.join(told[many] for many in sorted({len(row.ok) > MANY_SEEDS for row in rows}))}"
    several = [row.repetitions for row in rows if 1 < row.repetitions <= MANY_SEEDS]
    if ranges and several:
        text += f". With {min(several)} seeds, [lowest..highest] covers the median over all seeds in {_odds(several)}"
    if any(row.ok[0].pretrained and not row.once for row in rows):
        text += ". Seeds of a pretrained model only draw other examples"
    return f"{text}."


def _odds(several: Sequence[int]) -> str:
    """How often the range of the fewest seeds does."""
    share = Fraction(coverage(min(several)))
    many = share.denominator > MOST_CASES
    return (
        f"more than {MOST_CASES - 1} of {MOST_CASES} cases"
        if many
        else f"{share.numerator} of {share.denominator} cases"
    )


def _names(groups: Sequence[Group]) -> Iterator[str]:
    """What each number is, and each column of a matrix, whose probe says so; names of one explanation together, and
    where it holds if a name has several."""
    found: dict[str, dict[str, None]] = {}
    where: dict[str, dict[str, None]] = {}
    for each in groups:
        scalars, matrices = each.names(Scalar), each.names(Matrix)
        for row in each.measured:
            told = [(s.name, s.about) for name in scalars for s in row.find(Scalar, name)]
            told += [(m.name, m.meaning) for name in matrices for m in row.find(Matrix, name)]
            for name, text in told:
                if text:
                    found.setdefault(text, {})[name] = None
                    where.setdefault(text, {})[f"{each.probe} on {each.task}"] = None
    several = [name for names in found.values() for name in names]
    for text, names in found.items():
        whose = f" ({', '.join(where[text])})" if any(several.count(name) > 1 for name in names) else ""
        yield f"{', '.join(names)}{whose}: {text}."


def _cells(table: Table) -> Iterator[tuple[str, str]]:
    """Every number as it is shown, with what its line is called in the column `seeds`, if there is one."""
    which = next((column.cells for column in table.columns if column.header == "seeds"), None)
    for column in table.columns:
        if column.role == "number" and column.header not in ("seeds", "parameters", *SETTINGS):
            yield from zip(which or [""] * len(column.cells), column.cells, strict=True)


def _words(groups: Sequence[Group]) -> Iterator[str]:
    """What each verdict means that is shown with a meaning; words of one meaning together."""
    found: dict[str, dict[str, None]] = {}
    probes: dict[str, dict[str, None]] = {}
    counted = False
    for each in groups:
        for name in each.names(Scalar):
            for row in each.measured:
                scalars = [scalar for scalar in row.find(Scalar, name) if scalar.verdict]
                counted |= len(row.find(Scalar, name)) > 1 and bool(scalars)
                for scalar in scalars:
                    if scalar.meaning:
                        found.setdefault(scalar.meaning, {})[str(scalar.verdict)] = None
                        probes.setdefault(scalar.meaning, {})[each.probe] = None
    if counted:
        yield "n/m after a verdict: n of m seeds say so."
    several = [word for words in found.values() for word in words]
    for meaning, words in found.items():
        whose = f" ({', '.join(probes[meaning])})" if any(several.count(word) > 1 for word in words) else ""
        yield f"{', '.join(words)}{whose}: {meaning}."


def _one_rate(groups: Sequence[Group]) -> Iterator[str]:
    """That a failure to learn is one at a learning rate, where no other one was tried."""
    rates: dict[str, set[float]] = {}
    failed: dict[str, set[str]] = {}
    for each in groups:
        if each.stage == "trained":
            for row in each.measured:
                rates.setdefault(row.model, set()).update(r.training.lr for r in row.ok if "lr" in conditions(r))
                words = {m.verdict for r in row.ok for m in r.measurements if isinstance(m, Scalar) and m.verdict}
                failed.setdefault(row.model, set()).update(words & {*FAILURES})
    single = [model for model, words in failed.items() if words and len(rates[model]) == 1]
    if single:
        told = [word for word in FAILURES if any(word in failed[model] for model in single)]
        where = ", ".join(f"{model} {min(rates[model]):g}" for model in single)
        yield (
            f"{', '.join(told)}: at this learning rate ({where}). "
            "Of the architecture that is no verdict yet; a grid tells more: --grid lr=1e-4,1e-3,1e-2."
        )
