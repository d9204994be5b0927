"""Two runs side by side: what their cells have in common, what has changed, what is in one only."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from harness.comparing.changes import Change, changes
from harness.comparing.differences import Difference, differences
from harness.comparing.pairing import CellName, Lone, Pair, Side, pair_runs, split
from harness.errors import RequestError, did_you_mean, shown
from harness.results import Results, load, needed_for
from harness.schema import Record
from harness.vocabulary import FORMATS


class Unmeasured(NamedTuple):
    """A cell that at least one of the runs could not measure, for some seeds."""

    cell: CellName
    seeds: tuple[int, ...]
    a: str
    """`ok`, or `skipped` or `failed` with the reason."""
    b: str


@dataclass(frozen=True)
class Comparison:
    """What differs between two runs; text when printed, tables in a notebook."""

    a: Side
    b: Side
    rows: list[Difference]
    """Every number that both runs have of a cell, with its paired differences and what may be said of them."""
    changes: list[Change]
    """What else differs: code, arguments, settings, versions, machines."""
    only_a: list[Lone]
    """Cells, or seeds of them, that the first run has alone."""
    only_b: list[Lone]
    """Cells, or seeds of them, that the second run has alone."""
    outcomes: list[Unmeasured] = field(default_factory=list)
    """Cells in both that at least one run could not measure."""

    def render(self, format: str = "text", *, width: int = 100, ascii: bool = False) -> str:
        """The comparison as `text`, `markdown`, `latex`, `csv` (a row for each number), `json` or `html` (a page).

        Args:
            format: one of these.
            width: the columns that a text may take.
            ascii: use no sign beyond ASCII in a text, for terminals that lack them.

        Raises:
            RequestError: there is no such format, or the libraries for pages are missing.
        """
        from harness.comparing.document import document
        from harness.comparing.export import to_csv, to_json
        from harness.report.writers import write

        known = (*FORMATS, "html")
        if format not in known:
            raise RequestError(
                f"unknown format {format!r}; choose from {', '.join(known)}.{did_you_mean(format, known)}"
            )
        if format == "html":
            return self.page()
        if format in ("csv", "json"):
            return to_csv(self) if format == "csv" else to_json(self)
        return write(document(self, ascii=ascii), format, width)

    def page(self) -> str:
        """One HTML file, which needs no network.

        Raises:
            RequestError: the libraries for pages are missing.
        """
        with needed_for("a page", "page"):
            from harness.comparing.page import render_page
        return render_page(self)

    def __str__(self) -> str:
        return self.render()

    def _repr_html_(self) -> str | None:
        """What Jupyter shows; None (so that it shows text) without the libraries."""
        with suppress(RequestError), needed_for("a page", "page"):
            from harness.comparing.page import render_snippet

            return render_snippet(self)
        return None


def compare(
    a: str | Path | Results, b: str | Path | Results, *, pair: Mapping[str, str] | Iterable[str] = ()
) -> Comparison:
    """What differs between two runs: did a change help?

    Cells are the same if they were asked for in the same words, whatever has become of the code behind them, and seeds
    are compared with themselves: a difference is B - A of one seed.

    Args:
        a: the run directory of the first run, or its results.
        b: that of the second one.
        pair: models (tasks, probes) of the first run with those of the second that take their place, where names have
            changed, for example `{"lstm": "./my.py:LSTM"}`, or texts `OLD=NEW`.

    Raises:
        RequestError: there is no run, both are the same, they have nothing in common, or a pair names what
            is not there.
    """
    first, second = (each if isinstance(each, Results) else load(each) for each in (a, b))
    if first.out.resolve() == second.out.resolve() and _ids(first) == _ids(second):
        raise RequestError(f"{str(first.out)!r} is given twice; name the run before the change and the one after it")
    sides = [Side.of(each.out, each.records, each.suite, each.note) for each in (first, second)]
    for side in sides:
        if not side.records:
            raise RequestError(f"the run {str(side.out)!r} has no records: nothing has been measured there yet")
    same = _pairs(pair, sides[0], sides[1])
    found = pair_runs(sides[0], sides[1], same)
    if not any(each.seeds for each in found.pairs):
        raise _nothing_in_common(sides[0], sides[1], bool(found.pairs or _seeds_only(found.only_a)))
    return Comparison(
        sides[0],
        sides[1],
        list(differences(found.pairs)),
        changes(found.pairs),
        found.only_a,
        found.only_b,
        list(_outcomes(found.pairs)),
    )


def _pairs(pair: Any, a: Side, b: Side) -> list[tuple[str, str]]:
    """Which is which, as it was said to `compare`."""
    given = [pair] if isinstance(pair, str) or not isinstance(pair, Iterable) else list(pair)
    if not all(isinstance(each, str) for each in (*given, *(pair.values() if isinstance(pair, Mapping) else ()))):
        raise RequestError(
            f'pair says which names have changed, for example {{"lstm": "./my.py:LSTM"}}; received {shown(pair)}'
        )
    return list(pair.items()) if isinstance(pair, Mapping) else [split(words, a, b) for words in given]


def _ids(results: Results) -> list[str]:
    return [record.id for record in results]


def _seeds_only(lone: Iterable[Lone]) -> bool:
    return any(each.lacks == "seeds" for each in lone)


def _nothing_in_common(a: Side, b: Side, cells: bool) -> RequestError:
    if cells:
        seeds = [sorted({record.seed for record in side.records}) for side in (a, b)]
        return RequestError(
            f"the two runs have cells in common, but no seeds: {str(a.out)!r} has {_listed(seeds[0])}, {str(b.out)!r} "
            f"has {_listed(seeds[1])}. Only the same seed is compared; run one of them with more seeds (--seeds)"
        )
    has = [
        f"{str(side.out)!r} has models {side.listed('model')}; tasks {side.listed('task')}; probes "
        f"{side.listed('probe')}"
        for side in (a, b)
    ]
    return RequestError(
        f"the two runs have no cell in common. {has[0]}. {has[1]}. If a name has changed, say which is which: "
        "--pair OLD=NEW (pair= in Python)"
    )


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _outcomes(pairs: Iterable[Pair]) -> Iterator[Unmeasured]:
    """By cell and what became of it, with the seeds."""
    for pair in pairs:
        found: dict[tuple[str, str], list[int]] = {}
        for seed in pair.seeds:
            said = (_said(pair.a[seed]), _said(pair.b[seed]))
            if said != ("ok", "ok"):
                found.setdefault(said, []).append(seed)
        for (old, new), seeds in found.items():
            yield Unmeasured(pair.cell, tuple(seeds), old, new)


def _said(record: Record) -> str:
    if record.error is not None:
        return f"failed: {record.error.type}: {record.error.message}"
    return f"skipped: {record.reason}" if record.status == "skipped" else "ok"


def counts(rows: Iterable[Difference]) -> Counter[Any]:
    """How many numbers have which verdict."""
    return Counter(row.verdict for row in rows)
