"""The command that frees space: `harness clean`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.common import say, terminal_width
from harness.written import count, size

if TYPE_CHECKING:
    from harness.cleaning import Held


@click.command()
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--remove",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Delete this: checkpoints, partial, temporary, set-aside, or all of these; repeat for several.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def clean(directory: Path, kinds: tuple[str, ...], form: str) -> None:
    """Show what the run in the directory RUN keeps, and delete what is named, never anything that was measured.

    Without --remove nothing is deleted.
    """
    from harness.cleaning import MEANING, REMOVABLE, contents, remove

    held = remove(directory, REMOVABLE if "all" in kinds else kinds) if kinds else contents(directory)
    if form == "json":
        say(json.dumps({kind: _as_data(each) for kind, each in held.items()}, indent=1))
        return
    if kinds:
        for kind, each in held.items():
            say(f"removed {kind}: {count(len(each.paths), 'file')}, {size(each.size)}")
        return
    lines = click.HelpFormatter(width=terminal_width())
    lines.write_dl(
        [
            (f"{kind}  {count(len(each.paths), 'file')}, {size(each.size)}", MEANING[kind])
            for kind, each in held.items()
            if each.paths
        ],
        col_max=40,
    )
    say(lines.getvalue().rstrip())
    if found := [kind for kind in REMOVABLE if held[kind].paths]:
        say(f"\nDelete what is not needed: harness clean {directory} --remove all   (or {', '.join(found)})")


def _as_data(held: "Held") -> dict[str, Any]:
    return {"files": [str(path) for path in held.paths], "bytes": held.size}
