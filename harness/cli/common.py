"""What several commands share: folders to write to, what is printed and how, the width of a terminal."""

import codecs
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from io import TextIOWrapper
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import click

from harness.errors import RequestError
from harness.safe import visible_lines

if TYPE_CHECKING:  # whoever has results or a run has imported them
    from harness.execution import Progress
    from harness.results import Results
    from harness.schema import Record
    from harness.suites import Suite

DEFAULT_PAGE = ":in the run directory:"
"""What `--page` means without a file."""

MOST_FAILURES = 10
"""Different ones that are told while a run goes on."""

LONGEST_REASON = 400
"""Characters of an error that are told."""

PATIENCE = 30.0
"""Seconds between two lines that say how far a run is, where there is no terminal to draw a bar on."""


class OutputFolder(click.Path):
    """A folder to write to; `Path("")` would be the current one."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty; name a folder, or leave the option out", param, ctx)
        return super().convert(value, param, ctx)


class PageFile(click.Path):
    """A page to write. `--page` may stand alone, and would take the next word for its file, for example a suite."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value) != DEFAULT_PAGE and Path(value).suffix != ".html":
            self.fail(f"{str(value)!r} does not end in .html; without a file, write --page last", param, ctx)
        return super().convert(value, param, ctx)


def rendered(results: "Results", suite: "Suite | None", form: str) -> str:
    """The report on some results, as wide as the terminal, with what plugins add to it."""
    from harness.report import can_draw, render

    records, note = list(results), results.note
    ascii, sections = not can_draw(sys.stdout.encoding), sections_of(records)
    return render(records, suite, form, width=terminal_width(), ascii=ascii, sections=sections, note=note)


def sections_of(records: "Iterable[Record]") -> list[Any]:
    """What plugins add to a report."""
    from harness.registry import default_registry

    failed: list[str] = []
    with redirect_stdout(sys.stderr):
        sections = default_registry().notify("harness_report_sections", failed.append, records=list(records))
    return sections + [(text.partition(":")[0], f"this section could not be drawn: {text}") for text in failed]


def checked_page(page: Path, out: Path) -> Path:
    """Where a page goes that is asked for with a run, before anything runs.

    Raises:
        RequestError: the libraries for pages are missing, or the file could not be written.
    """
    from harness.results import check_libraries

    check_libraries()
    if str(page) == DEFAULT_PAGE:
        page = out / "page.html"
    else:
        check_folder(page)
    try:
        folder = next(each for each in page.parents if each.exists())  # what is missing, a run makes
        fits = folder.is_dir() and not page.is_dir() and os.access(page if page.exists() else folder, os.W_OK)
    except OSError:  # a name is too long
        fits = False
    if not fits:
        raise RequestError(f"the page {str(page)!r} could not be written; choose another place: --page FILE.html")
    return page


def check_folder(path: Path) -> None:
    """Raises RequestError where a file's folder is missing."""
    if not os.path.isdir(path.parent):  # noqa: PTH112 - a Path raises if a name is too long
        raise RequestError(f"there is no folder {str(path.parent)!r} to write {path.name!r} into; make it first")


def write_page(results: "Results", path: Path) -> None:
    """Write the page of some results.

    Raises:
        RequestError: the libraries for pages are missing, or the file cannot be written.
    """
    write_file(path, results.page(sections_of(results.records)))


def check_target(form: str, out: Path | None) -> None:
    """Refuse a file that could not be written, and a page without one, before anything is read.

    Raises:
        RequestError: what to write instead.
    """
    if out is not None:
        check_folder(out)
    if form == "html" and out is None:
        raise RequestError("a page goes into a file; say which, for example --out page.html")


def write_file(path: Path, text: str) -> None:
    """Write a report.

    Raises:
        RequestError: the file cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise RequestError(f"{str(path)!r} cannot be written: {error.strerror or error}") from error


def say(text: str, *, error: bool = False) -> None:
    """Print text that may hold words of plugins, files and users, so that no terminal obeys it. A command goes on when
    nobody reads its warnings and progress any more."""
    with suppress(OSError) if error else nullcontext():
        click.echo(visible_lines(text), err=error)


@contextmanager
def progress() -> "Iterator[Callable[[Progress], None]]":
    """A bar with the time left on a terminal; elsewhere, as in a log, a line for each tenth of what takes long."""
    from tqdm import tqdm

    if not sys.stderr.isatty():
        yield _told_in_lines()
        return
    layout = "{percentage:3.0f}% |{bar}| {desc}, {elapsed} gone, {remaining} left"
    with tqdm(total=1, bar_format=layout, desc="starting", leave=False, file=sys.stderr) as bar:

        def report(state: "Progress") -> None:
            bar.total = state.all_trials
            bar.set_description_str(_how_far(state), refresh=False)
            bar.update(state.trials - bar.n)

        yield report


def _told_in_lines() -> "Callable[[Progress], None]":
    from time import monotonic

    from tqdm import tqdm

    begun = last = monotonic()
    tenths = 0

    def report(state: "Progress") -> None:
        nonlocal last, tenths
        now, share = monotonic(), state.trials / max(state.all_trials, 1)
        if share < 1 and int(10 * share) > tenths and now - last >= PATIENCE:
            tenths, last = int(10 * share), now
            gone, left = (tqdm.format_interval(each) for each in (now - begun, (now - begun) * (1 / share - 1)))
            say(f"{share:.0%}: {_how_far(state)}, {gone} gone, {left} left", error=True)

    return report


def _how_far(state: "Progress") -> str:
    steps = f", step {state.steps:,.0f} of {state.all_steps:,}" if state.all_steps else ""
    return f"trial {state.trials:.1f} of {state.all_trials}{steps}"


def warn(text: str) -> None:
    """Say that something is wrong, above the bar if there is one."""
    from tqdm import tqdm

    with tqdm.external_write_mode(sys.stderr):
        say(f"Warning: {text}", error=True)


def first_failures() -> "Callable[[Record], None]":
    """What says why a model fails as soon as it does, which may be long before the report, and the same once."""
    told: set[tuple[str, str]] = set()

    def tell(record: "Record") -> None:
        if record.error is None or (why := (record.model.called, record.error.message)) in told:
            return
        told.add(why)
        if len(told) > MOST_FAILURES:
            return
        what = f"{record.model.called} on {record.task.called}, {record.probe.called}, seed {record.seed}"
        more = "; further failures stand in the report" if len(told) == MOST_FAILURES else ""
        warn(f"{what} failed: {shorten(record.error.message, LONGEST_REASON)}{more}")

    return tell


def open_standard_files() -> None:
    """Open the standard files that the caller closed: otherwise whatever is opened next, such as a pipe to a worker,
    would take their place."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def print_anything() -> None:
    """Print characters that the output's encoding lacks as escapes, instead of ending the program."""
    codecs.register_error("as in JSON", _as_in_json)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="as in JSON")


def _as_in_json(error: UnicodeError) -> tuple[str, int]:
    """`\\u6a21`, so that JSON says the same as before."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    import json

    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def terminal_width() -> int:
    """Columns to fill: the terminal's (or `COLUMNS`), within what reads well."""
    import shutil

    return max(40, min(shutil.get_terminal_size((100, 24)).columns, 140))
