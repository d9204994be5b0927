"""The commands that show what was measured: `harness report` and `harness schema`."""

import json
from pathlib import Path

import click

from harness.cli.common import check_target, rendered, say, terminal_width, write_file, write_page
from harness.errors import HarnessError, RequestError
from harness.vocabulary import FORMATS
from harness.written import count


@click.command()
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice((*FORMATS, "html")), default="text", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Write it into this file, instead of to standard output.")
@click.option("-m", "--model", "models", multiple=True, metavar="NAME", help="Only this model; repeat for several.")
@click.option("-t", "--task", "tasks", multiple=True, metavar="NAME", help="Only this task.")
@click.option("-p", "--probe", "probes", multiple=True, metavar="NAME", help="Only this probe.")
@click.option("--grid", is_flag=True, help="Only what a grid says; with csv and json, a row for each cell of it.")
def report(
    directory: Path,
    form: str,
    out: Path | None,
    grid: bool,
    models: tuple[str, ...],
    tasks: tuple[str, ...],
    probes: tuple[str, ...],
) -> None:
    """Show a finished run again. RUN is its directory.

    NAME is a label (gpt:position=none), an alias, or a name: gpt is the one without arguments, or where the run has no
    such, all its configurations; the report says which. Of a packed run only what is named is read.

    \b
    harness report runs/recall
    harness report runs/recall --model gpt:position=none --probe accuracy
    harness report runs/recall --format html --out page.html
    """
    from harness.results import read

    check_target(form, out)
    if grid and form == "html":
        raise RequestError("a page has everything; leave out --grid, or choose another format")
    unreadable: list[str] = []
    results = read(directory, unreadable.append, {"model": models, "task": tasks, "probe": probes})
    if grid:
        from harness.report import render_grid

        text = render_grid(results.records, results.suite, form, width=terminal_width(), note=results.note)
        if out is None:
            click.echo(text, nl=False)
        else:
            write_file(out, text)
    elif results.records or not unreadable:
        if form not in ("csv", "json"):
            from harness.report.verdicts import unanswerable

            unreadable += unanswerable(results.suite, results.records, ["not judged"])
        if out is None:
            click.echo(rendered(results, results.suite, form))
        else:
            if form == "html":
                write_page(results, out)
            else:
                write_file(out, rendered(results, results.suite, form))
            say(f"{count(len(results), 'record')}: {out}")
    if unreadable:
        raise HarnessError("\n".join(unreadable))


@click.command()
@click.argument("what", type=click.Choice(["record", "suite"]), default="record")
def schema(what: str) -> None:
    """Print the JSON Schema of a record (or of a suite)."""
    from harness.schema import Record
    from harness.suites import Suite

    click.echo(json.dumps((Record if what == "record" else Suite).model_json_schema(mode="serialization"), indent=1))
