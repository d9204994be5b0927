"""The command that puts two runs side by side: `harness compare`."""

import sys
from pathlib import Path

import click

from harness.cli.common import check_target, say, terminal_width, write_file
from harness.vocabulary import FORMATS
from harness.written import count


@click.command()
@click.argument("first", metavar="RUN_A", type=click.Path(path_type=Path))
@click.argument("second", metavar="RUN_B", type=click.Path(path_type=Path))
@click.option(
    "--pair",
    "pairs",
    multiple=True,
    metavar="OLD=NEW",
    help="A model (or task, or probe) of RUN_A that is another one in RUN_B; repeat for several.",
)
@click.option("--format", "form", type=click.Choice((*FORMATS, "html")), default="text", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="Write it into this file, instead of to standard output.")
def compare(first: Path, second: Path, pairs: tuple[str, ...], form: str, out: Path | None) -> None:
    """Did a change help? RUN_A is the run before it, RUN_B the one after it.

    Numbers of the same seed are compared, of models, tasks and probes that were asked for in the same words.

    \b
    harness compare runs/before runs/after
    harness compare runs/before runs/after --pair lstm=./my.py:LSTM
    harness compare runs/before runs/after --format html --out compared.html
    """
    from harness.comparing import compare as compare_runs
    from harness.report import can_draw
    from harness.results import read

    check_target(form, out)
    sides = [read(run, lambda message: say(f"Warning: {message}", error=True)) for run in (first, second)]
    comparison = compare_runs(*sides, pair=pairs)
    ascii = out is None and not can_draw(sys.stdout.encoding)
    text = comparison.render(form, width=terminal_width(), ascii=ascii)
    if out is None:
        click.echo(text, nl=False)
    else:
        write_file(out, text)
        say(f"{count(len(comparison.rows), 'number')}: {out}")
