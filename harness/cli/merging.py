"""The command that puts run directories together: `harness merge`."""

from pathlib import Path

import click

from harness.cli.common import OutputFolder, say
from harness.written import count

SHOWN = 5
"""Conflicts that are listed; the folder has all of them."""


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option(
    "--out", type=OutputFolder(), required=True, help="The directory to write; what it has already takes part."
)
@click.option(
    "--prefer", metavar="RUN", type=click.Path(path_type=Path), help="Where outcomes differ, take this run's."
)
@click.option("--without-checkpoints", is_flag=True, help="Leave trained models where they are.")
@click.option("--pack", is_flag=True, help="Write all records into one file, records.sqlite.")
@click.pass_context
def merge(
    context: click.Context,
    runs: tuple[Path, ...],
    out: Path,
    prefer: Path | None,
    without_checkpoints: bool,
    pack: bool,
) -> None:
    """Put run directories together, for example those of shards. The RUNs are only read.

    A cell that was measured differently in two of them is named, and left out of reports until --prefer says which
    counts.
    """
    from harness.merging import merge as merge_runs
    from harness.store import CONFLICTS

    merged = merge_runs(runs, out, prefer=prefer, checkpoints=not without_checkpoints, pack=pack)
    say(f"{count(merged.records, 'record')} of {count(len(runs), 'run')} in {out}: harness report {out}")
    for (failed, ok), cells in merged.recovered.items():
        say(f"{count(cells, 'cell')} failed in {failed}; the outcome in {ok} is kept")
    for sentence in merged.unreadable:
        say(f"Error: {sentence}", error=True)
    if merged.conflicts:
        say(f"Error: {count(len(merged.conflicts), 'cell')} with different outcomes:", error=True)
        for each in merged.conflicts[:SHOWN]:
            say(f"  {each.record}  {each.what}: {each.difference} ({', '.join(map(str, each.runs))})", error=True)
        more = len(merged.conflicts) - SHOWN
        say(
            f"{f'  and {more} more{chr(10)}' if more > 0 else ''}No record of them is kept; every outcome is in "
            f"{out / CONFLICTS}. Merge again with --prefer RUN to choose.",
            error=True,
        )
    context.exit(1 if merged.conflicts or merged.unreadable else 0)
