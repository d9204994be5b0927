"""The command line. Thin: it reads the request, calls the library and prints."""

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from textwrap import TextWrapper
from typing import Any, ClassVar

import click

from harness.cli_plugins import check, new
from harness.errors import HarnessError, RequestError
from harness.vocabulary import FORMATS, STAGES

KINDS = ("models", "tasks", "probes", "suites")


class Folder(click.Path):
    """A folder to write to; `Path("")` would be the current one."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty; name a folder, or leave the option out", param, ctx)
        return super().convert(value, param, ctx)


class HarnessGroup(click.Group):
    """Prints our own errors in one paragraph, without a traceback, and leaves with the right code."""

    order: ClassVar = ("run", "report", "list", "show", "bench", "new", "check", "schema")

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.order, *(name for name in super().list_commands(ctx) if name not in self.order)]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except HarnessError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(2 if isinstance(error, RequestError) else 1)
        except OSError as error:
            if error.filename is not None or error.errno == errno.EPIPE:  # not from writing to standard output
                raise
            click.echo(f"Error: the output cannot be written: {error.strerror}", err=True)
            with suppress(OSError, ValueError):  # or Python would try again at its end, and say so
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(1)
        except KeyboardInterrupt:
            from harness.executors.start import stop

            stop()
            click.echo("Interrupted.", err=True)
            ctx.exit(130)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from harness.errors import did_you_mean

        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(error.message + did_you_mean(args[0], self.list_commands(ctx)), ctx) from None


@click.group(cls=HarnessGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sequence-harness", prog_name="harness")
def main() -> None:
    """Ask a sequence architecture: does gradient reach, does it look, does it rely, does it extrapolate?

    \b
    harness run --model lstm --probe grad_reach
    harness run --model lstm --model gpt:position=none --task recall:train_max=100
    harness run recall --jobs 2
    """


@main.command()
@click.argument("suite", required=False)
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    metavar="NAME[:ARG=VALUE,...]",
    help="A model, perhaps by another name (small=gpt:layers=1); repeat to compare.",
)
@click.option("-t", "--task", "tasks", multiple=True, metavar="NAME[:ARG=VALUE,...]", help="A task  [default: recall].")
@click.option(
    "-p",
    "--probe",
    "probes",
    multiple=True,
    metavar="NAME[:ARG=VALUE,...]",
    help="A probe  [default: accuracy].",
)
@click.option("--seeds", type=click.IntRange(min=1), help="Number of seeds  [default: 3].")
@click.option(
    "--training",
    multiple=True,
    metavar="SETTING=VALUE,...",
    help="Override training, e.g. steps=200,lr=1e-3; repeat to compare ways of training.",
)
@click.option("--stage", "stages", multiple=True, type=click.Choice(STAGES), help="Only this stage.")
@click.option("--examples", type=click.IntRange(min=1), help="Evaluation examples per condition  [default: 512].")
@click.option("--out", type=Folder(), help="Run directory  [default: runs/<suite>, or runs/<models>+<tasks>].")
@click.option(
    "--fresh",
    is_flag=True,
    help="Train and measure anew what is asked for here; other records in the run directory stay.",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Worker processes  [default: one per core; 1 on cuda].")
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option("--dry-run", is_flag=True, help="Print the trials and cells, and run nothing.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.pass_context
def run(
    context: click.Context,
    suite: str | None,
    models: tuple[str, ...],
    tasks: tuple[str, ...],
    probes: tuple[str, ...],
    seeds: int | None,
    training: tuple[str, ...],
    stages: tuple[str, ...],
    examples: int | None,
    out: Path | None,
    fresh: bool,
    jobs: int | None,
    device: str,
    dry_run: bool,
    form: str,
) -> None:
    """Train and measure: a SUITE (a TOML file or a built-in name), or models crossed with tasks and probes.

    What is already in the run directory is not measured again.
    """
    from harness.devices import check_device, default_jobs
    from harness.execution import execute
    from harness.executors.start import start
    from harness.plan import make_plan
    from harness.registry import default_registry
    from harness.requests import build_suite, default_out
    from harness.suites import parse_arguments

    asked = build_suite(
        models or None,
        tasks or None,
        probes or None,
        suite=suite,
        seeds=seeds,
        examples=examples,
    )
    check_device(device)
    ways = [parse_arguments(each) for each in training]
    if {} in ways:
        raise RequestError(
            "--training is empty; write SETTING=VALUE, for example --training steps=200, or leave it out"
        )
    jobs = jobs or (default_jobs() if device == "cpu" else 1)
    if jobs > 1 and not dry_run:
        start()  # workers get ready while the run is planned
    with redirect_stdout(sys.stderr):  # what plugins print; standard output is for results
        plan = make_plan(asked, default_registry(), device=device, training=ways, stages=stages or STAGES)
    out = out or default_out(asked)
    if dry_run:
        _print_plan(plan, out)
        context.exit(1 if any(planned.broken for planned in plan.trials) else 0)
    try:
        with _progress() as report, redirect_stdout(sys.stderr):
            results = execute(plan, out, fresh=fresh, jobs=jobs, report=report)
    except KeyboardInterrupt:
        click.echo(f"Interrupted. What is finished is in {out}; the same command goes on from there.", err=True)
        context.exit(130)
    click.echo(_rendered(results.records, asked, form))
    if form == "text":
        click.echo(
            f"\n{_count(len(results), 'record')} {'is' if len(results) == 1 else 'are'} in {out}/records.\n"
            f"Show them again: harness report {out}   (as data: --format csv)"
        )
    context.exit(1 if any(record.status == "failed" for record in results) else 0)


@main.command()
@click.option("--out", type=Folder(), default=Path("runs/bench"), show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Repetitions.")
@click.option("-m", "--model", "models", multiple=True, hidden=True)
@click.pass_context
def bench(context: click.Context, out: Path, seeds: int, models: tuple[str, ...]) -> None:
    """Time sequential against parallel models on this machine: the suite `bench`, anew, one trial at a time."""
    if models:
        named = " ".join(f"--model {model}" for model in models)
        raise RequestError(f"bench times the models of its own suite; for others: harness run {named} --probe speed")
    context.invoke(run, suite="bench", seeds=seeds, out=out, fresh=True, jobs=1)


def _print_plan(plan: Any, out: Path) -> None:
    for planned in plan.trials:
        trial = planned.trial
        training = trial.training
        length = (
            _count(training.steps, "step") if training.steps is not None else _count(f"{training.epochs:g}", "epoch")
        )
        how = "pretrained, not trained" if trial.pretrained else f"{length}, lr {training.lr:g}"
        how += " (one seed stands for all: the data is fixed)" if planned.same else ""
        what = f"{trial.model.called} on {trial.task.called}, seed {trial.seed}, {how}"
        click.echo(f"{trial.id}  {what}")
        if planned.broken:
            click.echo(f"  cannot run: {planned.broken.message}")
        for cell in planned.cells:
            click.echo(f"  {cell.id}  {cell.probe.called} ({cell.stage})")
    trials, cells = _count(len(plan.trials), "trial"), _count(len(plan.cells), "cell")
    click.echo(f"{trials}, {cells}; records would go to {out}/records")


def _count(n: int | str, word: str) -> str:
    return f"{n} {word}{'' if str(n) == '1' else 's'}"


@contextmanager
def _progress() -> Iterator[Callable[[Any], None]]:
    """A bar with the time left on a terminal; silent elsewhere."""
    from tqdm import tqdm

    layout = "{percentage:3.0f}% |{bar}| {desc}, {elapsed} gone, {remaining} left"
    with tqdm(disable=None, total=1, bar_format=layout, desc="starting", leave=False, file=sys.stderr) as bar:

        def report(progress: Any) -> None:
            bar.total = progress.all_trials
            steps = f", step {progress.steps:,.0f} of {progress.all_steps:,}" if progress.all_steps else ""
            bar.set_description_str(f"trial {progress.trials:.1f} of {progress.all_trials}{steps}", refresh=False)
            bar.update(progress.trials - bar.n)

        yield report


@main.command()
@click.argument("directory", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
def report(directory: Path, form: str) -> None:
    """Show a finished run again. RUN is its directory."""
    from harness.results import read

    unreadable: list[str] = []
    results = read(directory, unreadable.append)
    if results.records or not unreadable:
        click.echo(_rendered(results.records, results.suite, form))
    if unreadable:
        raise HarnessError(unreadable[0])


def _rendered(records: Any, suite: Any, form: Any) -> str:
    from harness.registry import default_registry
    from harness.report import can_draw, render

    records = list(records)
    with redirect_stdout(sys.stderr):
        sections = default_registry().notify("harness_report_sections", records=records)
    return render(
        records, suite, form, width=terminal_width(), ascii=not can_draw(sys.stdout.encoding), sections=sections
    )


def terminal_width() -> int:
    """Columns to fill: the terminal's (or `COLUMNS`), within what reads well."""
    import shutil

    return max(40, min(shutil.get_terminal_size((100, 24)).columns, 140))


@main.command("list")
@click.argument("kind", required=False, type=click.Choice(KINDS))
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def list_plugins(kind: str | None, form: str) -> None:
    """List the models, tasks, probes and suites that are installed, and the plugins that are broken."""
    from harness.registry import default_registry

    registry = default_registry()
    kinds = [kind] if kind else list(KINDS)
    if form == "json":
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
    click.echo(formatter.getvalue())
    if registry.broken:
        lines = TextWrapper(terminal_width(), subsequent_indent="    ", break_on_hyphens=False)
        click.echo(lines.fill("Broken plugins (they fail only what needs them):"))
        for item in registry.broken:
            click.echo(lines.fill(f"  {item}"))
    else:
        click.echo("More about one: harness show model NAME")


@main.command()
@click.argument("kind", type=click.Choice([kind.removesuffix("s") for kind in KINDS]))
@click.argument("name")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def show(kind: str, name: str, form: str) -> None:
    """Show one plugin: what it does, its arguments with types and defaults, what it needs, where it comes from.

    As JSON a suite is shown whole, as `harness schema suite` describes it.
    """
    from harness.explain import describe_plugin, describe_suite
    from harness.requests import find_suite

    if kind != "suite":
        click.echo(describe_plugin(kind, name, as_json=form == "json"))
    elif form == "json":
        click.echo(find_suite(name).model_dump_json(indent=1))
    else:
        click.echo(describe_suite(name))


@main.command()
@click.argument("what", type=click.Choice(["record", "suite"]), default="record")
def schema(what: str) -> None:
    """Print the JSON Schema of a record (or of a suite)."""
    from harness.schema import Record
    from harness.suites import Suite

    click.echo(json.dumps((Record if what == "record" else Suite).model_json_schema(mode="serialization"), indent=1))


main.add_command(new)
main.add_command(check)
