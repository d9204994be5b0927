"""The commands that show what was measured: `harness report` and `harness schema`."""

import json
from pathlib import Path

import click

from harness.cli.common import rendered
from harness.errors import HarnessError
from harness.vocabulary import FORMATS


@click.command()
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
def report(directory: Path, form: str) -> None:
    """Show a finished run again. RUN is its directory."""
    from harness.results import read

    unreadable: list[str] = []
    results = read(directory, unreadable.append)
    if results.records or not unreadable:
        click.echo(rendered(results, results.suite, form))
    if unreadable:
        raise HarnessError(unreadable[0])


@click.command()
@click.argument("what", type=click.Choice(["record", "suite"]), default="record")
def schema(what: str) -> None:
    """Print the JSON Schema of a record (or of a suite)."""
    from harness.schema import Record
    from harness.suites import Suite

    click.echo(json.dumps((Record if what == "record" else Suite).model_json_schema(mode="serialization"), indent=1))
