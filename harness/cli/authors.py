"""The commands for whoever writes a plugin: `harness new` and `harness check`."""

import json
from pathlib import Path

import click

from harness.cli.common import say
from harness.vocabulary import CROSSED


@click.command()
@click.argument("kind", type=click.Choice(CROSSED))
@click.argument("name")
@click.option(
    "--into", type=click.Path(path_type=Path), default=Path(), help="Folder for the package  [default: this one]."
)
def new(kind: str, name: str, into: Path) -> None:
    """Write a small plugin package to start from: working code, its entry point, a test and a README.

    \b
    harness new model acme-gru
    pip install -e acme-gru
    harness run --model acme-gru --probe grad_reach
    """
    from harness.registry import default_registry
    from harness.scaffold import next_commands, write_package

    folder = write_package(kind, name, into, default_registry())
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        say(f"  {path}")
    say("Now:\n" + "\n".join(f"  {command}" for command in next_commands(kind, name, folder)))


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--kind", type=click.Choice(CROSSED), help="Only this kind, where a name is used by several.")
@click.option("-v", "--verbose", is_flag=True, help="Show what passed, too.")
@click.option(
    "--timeout", type=float, metavar="SECONDS", default=3600, show_default=True, help="What one check may take."
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def check(
    context: click.Context, names: tuple[str, ...], kind: str | None, verbose: bool, timeout: float, form: str
) -> None:
    """Check models, tasks and probes: is a model causal, is a task's data its own, does a probe leave no trace?

    NAME is what `harness run` takes: `lstm`, `gpt:layers=4`, `./gru.py:GRU`. Without a name, everything that is
    installed is checked, except what needs arguments. The exit code is 1 if a check failed, or if nothing was checked
    of what is named. A plugin that hangs or ends the process fails by itself, and the others are checked.

    \b
    harness check acme-gru
    harness check ./gru.py:GRU --verbose
    """
    from harness.testing.apart import check_apart

    reports = []
    for report in check_apart(names, kind, timeout):
        reports.append(report)
        if form == "text":
            say(report.text(verbose=verbose))
    if form == "json":
        click.echo(json.dumps([report.as_dict() for report in reports], indent=1))
    failed = any(report.failed for report in reports)
    checked = [not report.unchecked for report in reports]
    context.exit(0 if not failed and (all(checked) if names else any(checked)) else 1)
