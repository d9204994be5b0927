"""The command that draws: `harness plot`."""

from pathlib import Path

import click

from harness.cli.common import say
from harness.errors import RequestError
from harness.written import count


@click.command()
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("charts", nargs=-1, metavar="[CHART]...")
@click.option("--out", type=click.Path(path_type=Path), help="The file: .pdf, .svg, .png, .html or .json (Vega-Lite).")
@click.option(
    "--width",
    type=click.FloatRange(min=2, max=30),
    default=7.0,
    show_default=True,
    help="Inches; a column of a paper has 3.5 or so.",
)
@click.option("-m", "--model", "models", multiple=True, help="Only this model; repeat for several.")
@click.option("-t", "--task", "tasks", multiple=True, help="Only this task; repeat for several.")
def plot(
    directory: Path,
    charts: tuple[str, ...],
    out: Path | None,
    width: float,
    models: tuple[str, ...],
    tasks: tuple[str, ...],
) -> None:
    """Draw a finished run for a paper. RUN is its directory; without CHART, say what it can draw.

    A model is named by its label (gpt:position=none), an alias, or a name: gpt is the one without arguments, or where
    the run has no such, all its configurations.

    \b
    harness plot runs/recall
    harness plot runs/recall reach --out reach.pdf --width 3.5
    harness plot runs/recall reach heads --out figures/recall.svg
    """
    from harness.results import read

    results = read(directory, lambda message: say(f"Warning: {message}", error=True))
    results = results.filter(model=models or None, task=tasks or None)
    drawings = results.drawings()
    if not charts:
        say(drawings.offer())
        return
    if out is None:
        raise RequestError(f"say where to draw, for example --out {charts[0]}.pdf")
    paths = [out] if len(charts) == 1 else [out.with_stem(f"{out.stem}-{chart}") for chart in charts]
    drawings.save(dict(zip(charts, paths, strict=True)), width)
    say(f"{count(len(paths), 'chart')}: {', '.join(map(str, paths))}")
    if drawings.view.left_out:
        say(drawings.view.left_out, error=True)
