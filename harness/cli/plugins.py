"""The commands that show what is installed: `harness list` and `harness show`."""

from textwrap import TextWrapper

import click

from harness.cli.common import say, terminal_width
from harness.specs import KINDS

LISTED = [f"{kind}s" for kind in KINDS]


@click.command("list")
@click.argument("kind", required=False, type=click.Choice(LISTED))
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def list_plugins(kind: str | None, form: str) -> None:
    """List the models, tasks, probes, suites and executors that are installed, and the plugins that are broken."""
    from harness.registry import default_registry

    registry = default_registry()
    kinds = [kind] if kind else LISTED
    if form == "json":
        import json

        click.echo(json.dumps(registry.as_dict([each.removesuffix("s") for each in kinds]), indent=1))
        return
    formatter = click.HelpFormatter(width=terminal_width())
    for each in kinds:
        entries = [
            (entry.spec.name, f"{entry.spec.summary} ({entry.origin.distribution} {entry.origin.version})")
            for entry in registry.all(each.removesuffix("s"))
        ]
        with formatter.section(each):
            formatter.write_dl(entries or [("none", "")])
    say(formatter.getvalue())
    if registry.broken:
        lines = TextWrapper(terminal_width(), subsequent_indent="    ", break_on_hyphens=False)
        click.echo(lines.fill("Broken plugins (they fail only what needs them):"))
        for item in registry.broken:
            say(lines.fill(f"  {item}"))
    else:
        click.echo("More about one: harness show model NAME")


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("name")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def show(kind: str, name: str, form: str) -> None:
    """Show one plugin: what it does, its arguments with types and defaults, what it needs, where it comes from.

    As JSON a suite is shown whole, as `harness schema suite` describes it.
    """
    from harness.explain import describe_plugin, describe_suite
    from harness.requests import find_suite

    if kind != "suite":
        shown = describe_plugin(kind, name, as_json=form == "json")
        click.echo(shown) if form == "json" else say(shown)
    elif form == "json":
        click.echo(find_suite(name).model_dump_json(indent=1))
    else:
        say(describe_suite(name))
