"""The records of a run, as the library hands them out."""

import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from harness.errors import RequestError, did_you_mean
from harness.garbage import uncollected
from harness.grids import argument_part
from harness.labels import Named, short_labels
from harness.matching import matches, means
from harness.narrowing import Narrowing
from harness.schema import PluginUse, Record
from harness.seeds import Identity, identity
from harness.sharding import missing_parts
from harness.store import CONFLICTS, RunDirectory
from harness.suites import Selection, Suite
from harness.unmeasured import unmeasured
from harness.vocabulary import CROSSED, STAGES, STATUSES, Format

if TYPE_CHECKING:
    from harness.charts.drawing import Drawings

MOST_LISTED = 10
"""At most this many configurations of a model are named in a note."""


@dataclass(frozen=True)
class Results:
    """The records of a run; behaves like a sequence of them."""

    records: tuple[Record, ...]
    out: Path
    suite: Suite | None = None
    note: str = ""
    """What reports say of all records, for example that they are one shard of a suite."""
    unfiltered: tuple[Record, ...] = field(default=(), repr=False)
    """All records of the run, if these were filtered from them."""

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: int) -> Record:
        return self.records[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def filter(
        self,
        *,
        model: str | Sequence[str] | None = None,
        task: str | Sequence[str] | None = None,
        probe: str | Sequence[str] | None = None,
        stage: str | None = None,
        status: str | None = None,
        seed: int | None = None,
    ) -> "Results":
        """The records that fit. A plugin is called by its label (`gpt:position=none`), its alias or as tables call it;
        the name of one that is not there as it is (`gpt`) means all its configurations. A list of names takes those of
        any.

        Raises:
            RequestError: the run has no such model, task, probe or seed at all, or there is no such stage or status.
        """
        asked = {"model": model, "task": task, "probe": probe, "stage": stage, "status": status, "seed": seed}
        wanted = {name: value for name, value in asked.items() if value is not None}
        whole = self.unfiltered or self.records
        fixed = {"stage": STAGES, "status": STATUSES}
        values = {
            name: [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
            for name, value in wanted.items()
        }
        short: dict[str, dict[Identity, str]] = {
            kind: short_labels(getattr(record, kind) for record in whole) for kind in CROSSED if kind in values
        }
        for name, value in ((name, value) for name, several in values.items() for value in several):
            known = fixed.get(name) or sorted({each for record in whole for each in _said(record, name, short)})
            if value not in known:
                words = [str(each) for each in known]
                guess = did_you_mean(str(value), words)
                if name == "seed":
                    guess = f" A seed is a number: seed={value}." if str(value) in words else ""
                raise RequestError(f"these results have no {name} {value!r}.{guess} There are: {', '.join(words)}.")
        plugins = {kind: _named(kind, values.pop(kind), whole, self.suite, each) for kind, each in short.items()}
        kept = [
            record
            for record in self.records
            if all(getattr(record, kind) in named for kind, named in plugins.items())
            and all(getattr(record, name) in some for name, some in values.items())
        ]
        return replace(self, records=tuple(kept), unfiltered=whole)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per number and seed, ready for a data frame."""
        from harness.report import rows

        return rows(self.records)

    def learnability(self) -> list[dict[str, Any]]:
        """What a grid says, one dictionary for each model, task and cell: success rate, median score, validation loss,
        whether it is the best one (chosen on validation data); empty where nothing was varied."""
        from harness.report import learnable

        return learnable(self.records, self.suite)

    def render(self, format: Format = "text") -> str:
        """The report: `text`, `markdown`, `latex`, `csv` or `json`."""
        from harness.report import can_draw, render

        ascii = not can_draw(getattr(sys.stdout, "encoding", None))
        return render(list(self.records), self.suite, format=format, ascii=ascii, note=self.note)

    def drawings(self) -> "Drawings":
        """The charts of these results.

        Raises:
            RequestError: the libraries for charts are missing.
        """
        with needed_for("a chart", "page"):
            from harness.charts.drawing import Drawings
            from harness.charts.view import View
        return Drawings(View(self.records, self.suite, RunDirectory(self.out).read_learning_curve))

    def page(self, sections: Sequence[tuple[str, str]] = ()) -> str:
        """One HTML file with everything: the answers, charts, tables; it needs no network.

        Args:
            sections: further titled text.

        Raises:
            RequestError: the libraries for pages are missing.
        """
        with needed_for("a page", "page"):
            from harness.page import render_page
        return render_page(self.drawings().view, sections, self.note)

    def plot(self, chart: str = "reach", *, width: float = 7.0) -> Any:
        """A chart as an Altair object, which notebooks show, and which can be changed further.

        Args:
            chart: its name, for example `reach`; `harness plot RUN` lists them.
            width: inches.

        Raises:
            RequestError: there is no such chart, these results cannot draw it, or the libraries are missing.
        """
        return self.drawings().draw(chart, width)

    def to_pandas(self) -> Any:
        """`rows` as a pandas data frame.

        Raises:
            RequestError: pandas is not installed.
        """
        with needed_for("this", ""):
            import pandas
        return pandas.DataFrame(self.rows())

    def to_polars(self) -> Any:
        """`rows` as a polars data frame.

        Raises:
            RequestError: polars is not installed.
        """
        with needed_for("this", ""):
            import polars
        return polars.DataFrame(self.rows(), infer_schema_length=None, strict=False)

    def __str__(self) -> str:
        return self.render()

    def _repr_html_(self) -> str | None:
        """What Jupyter shows: the answers and the first chart; None (so that it shows text) without the libraries."""
        try:
            with needed_for("a page", "page"):
                from harness.page import render_snippet
            return render_snippet(self.drawings().view, self.note)
        except RequestError:
            return None


def check_libraries() -> None:
    """Raises RequestError where the libraries for pages are missing; how to get them."""
    with needed_for("a page", "page"):
        import harness.page  # noqa: F401


@contextmanager
def needed_for(what: str, extra: str) -> Iterator[None]:
    """Around an import that not everybody has installed.

    Raises:
        RequestError: it is not there; how to get it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = f"'sequence-harness[{extra}]'" if extra else error.name
        raise RequestError(f"{what} needs {error.name}, which is not installed: pip install {missing}") from None


def _named(
    kind: str,
    words: Iterable[Any],
    records: Iterable[Record],
    suite: Suite | None,
    short: Mapping[Identity, str] = MappingProxyType({}),
) -> Named:
    """What words mean among the plugins of a kind that records are of."""
    varied = argument_part(suite.grid) if suite is not None and kind == "model" else {}
    return Named(map(str, words), (getattr(record, kind) for record in records), short, varied)


def _said(record: Record, name: str, short: Mapping[str, Mapping[Identity, str]]) -> tuple[Any, ...]:
    """What a record has by that name: for a plugin its name, its label, what tables call it and its alias."""
    value = getattr(record, name)
    if not isinstance(value, PluginUse):
        return (value,)
    found = (value.name, value.label, value.alias, short.get(name, {}).get(identity(value), ""))
    return tuple(filter(None, found))


def with_aliases(records: Iterable[Record], suite: Suite | None) -> tuple[Record, ...]:
    """The records with the aliases that a suite gives. Records keep those of the request that measured them first;
    whoever reads them wants the names of today."""
    if suite is None:
        return tuple(records)
    aliases: dict[tuple[str, Identity], str] = {}

    def alias(kind: str, use: PluginUse) -> str:
        key = (kind, identity(use))
        if key not in aliases:
            bare = use.model_copy(update={"alias": ""})
            found = [each.alias for each in suite.requests(kind) if matches(each.bare, bare)]
            aliases[key] = max(found, default=use.alias)  # a word rather than none
        return aliases[key]

    def renamed(record: Record) -> Record:
        uses = {kind: getattr(record, kind) for kind in CROSSED}
        names = {kind: (use, alias(kind, use)) for kind, use in uses.items()}
        new = {kind: use.model_copy(update={"alias": name}) for kind, (use, name) in names.items() if use.alias != name}
        return record.model_copy(update=new) if new else record

    return tuple(map(renamed, records))


def load(run: str | Path) -> Results:
    """The results of an earlier run, with its suite. What cannot be read is warned about and left out.

    Args:
        run: the run directory.

    Raises:
        RequestError: there is no run.
    """
    if not isinstance(run, str | os.PathLike):
        raise RequestError(f"a run is named by its directory, for example 'runs/lstm+recall'; received {run!r}")
    said: list[str] = []
    results = read(Path(run), said.append)
    for message in said:
        warnings.warn(message, stacklevel=2)
    return results


def read(out: Path, warn: Callable[[str], None], words: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Results:
    """`load`, where `warn` hears, a sentence each, of what cannot be read: records, or the suite with its claims.

    Args:
        out: the run directory.
        warn: see above.
        words: of `model`, `task` and `probe`, only those (see `Results.filter`), of which alone records are read as far
            as the directory allows, and the claims about them.

    Raises:
        RequestError: there is no run, or nothing of that name in it.
    """
    store = RunDirectory(out)
    suite, unreadable = None, ""
    try:
        suite = store.read_suite()
    except RequestError as error:
        unreadable = f"{error}."
    narrowing = Narrowing(words, suite) if any(words.values()) else None
    records, unseen = _read(store, narrowing)
    for message in unseen:
        warn(message)
    if unreadable:
        warn(unreadable)
    if aside := store.suites_set_aside():
        warn(
            f"A damaged suite was set aside as {str(aside[0])!r}: claims in it are not judged. Put it right and give "
            "it its name back, or delete it."
        )
    if narrowing is None:
        note = " ".join(filter(None, (incomplete(store, suite, records), _disputed(store, records))))
        return Results(with_aliases(records, suite), out, suite, note)
    note = " ".join(filter(None, (missing_parts(out), _disputed(store, None))))
    results = Results(with_aliases(records, suite), out, suite, note)
    try:
        narrowing.check()
    except RequestError:
        return _as_in_tables(replace(results, records=with_aliases(_read(store)[0], suite)), narrowing)
    return _narrowed(results, narrowing.words, {})


def incomplete(store: RunDirectory, suite: Suite | None, records: Iterable[Record]) -> str:
    """What to tell of a run directory, from the records of all its models, where it has not all of the suite that was
    planned last; "" where it has."""
    shards = missing_parts(store.path)
    left = unmeasured(suite, store.ids(), records, goes_on=not shards) if suite and suite.planned else ""
    return " ".join(filter(None, (left, shards)))


def _read(store: RunDirectory, narrowing: Narrowing | None = None) -> tuple[list[Record], list[str]]:
    """Records, and what is to be told of those that cannot be read."""
    said: list[str] = []
    with uncollected():
        return list(store.read_records(said.append, narrowing)), said


def _as_in_tables(whole: Results, narrowing: Narrowing) -> Results:
    """What is wanted by the short labels of tables, which follow from all records of the run.

    Raises:
        RequestError: there is nothing of that name either.
    """
    short = {kind: short_labels(getattr(record, kind) for record in whole) for kind in narrowing.words}
    for kind, labels in short.items():
        narrowing.aliases[kind] |= {*labels.values()}
    narrowing.check()
    return _narrowed(whole, narrowing.words, short)


def _narrowed(
    results: Results, words: Mapping[str, Sequence[str]], short: Mapping[str, Mapping[Identity, str]]
) -> Results:
    """Exactly the records that are wanted, and the claims that speak of them alone.

    Raises:
        RequestError: there are no records of all that is named.
    """
    only = " and ".join(f"{kind} {' or '.join(each)}" for kind, each in words.items())
    named = {kind: _named(kind, each, results, results.suite, short.get(kind, {})) for kind, each in words.items()}
    kept = [record for record in results if all(getattr(record, kind) in each for kind, each in named.items())]
    if not kept:
        raise RequestError(f"this run has no record of {only} together; leave one of them out")
    suite = results.suite
    if suite is not None:
        varied = argument_part(suite.grid)
        claims = [each for each in suite.claims if all(_spoken_of(s, kept, varied) for s in (each, each.other()))]
        suite = suite.model_copy(update={"claims": claims})
    which = (text for kind, each in named.items() for text in _which(each, [getattr(r, kind) for r in results]))
    note = " ".join(filter(None, (f"Only {only}, and claims about nothing else.", *which, results.note)))
    return Results(tuple(kept), results.out, suite, note)


def _which(named: Named, uses: Sequence[PluginUse]) -> Iterator[str]:
    """Of names that several configurations have, which are shown."""
    for word in sorted(named.words):
        known = sorted({use.called for use in uses if use.name == word})
        shown = sorted({use.called for use in uses if use.name == word and use in named})
        if word not in named.exact and len(shown) > 1:
            yield f"Of {word} these configurations: {_listed(shown)}."
        elif word in named.exact and (others := [each for each in known if each not in shown]):
            yield f"Of {word} not {_listed(others)}, which would have to be named, too."


def _listed(labels: Sequence[str]) -> str:
    more = [f"{len(labels) - MOST_LISTED:,} more"] if len(labels) > MOST_LISTED else []
    return ", ".join([*labels[:MOST_LISTED], *more])


def _spoken_of(selection: Selection | None, records: Iterable[Record], varied: Collection[str]) -> bool:
    return selection is None or any(means(selection, r.model, r.task, r.probe, r.stage, varied) for r in records)


def _disputed(store: RunDirectory, records: Iterable[Record] | None) -> str:
    """What to tell of cells that a merge found several outcomes of; "" if there are none.

    Args:
        store: the run directory.
        records: what it has; None where not all were read.
    """
    cells = {path.name.split(".")[0] for path in (store.path / CONFLICTS).glob("*.json")}
    if cells:
        cells -= store.ids() if records is None else {record.id for record in records}
    if not cells:
        return ""
    many = "1 cell has" if len(cells) == 1 else f"{len(cells):,} cells have"
    return f"{many} different outcomes in the runs that were merged, and none here: harness merge --prefer RUN."
