"""The commands that run something: `harness run` and `harness bench`."""

import sys
from collections.abc import Iterator
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import click

from harness.cli.common import (
    DEFAULT_PAGE,
    OutputFolder,
    PageFile,
    checked_page,
    first_failures,
    progress,
    rendered,
    say,
    warn,
    write_page,
)
from harness.errors import RequestError
from harness.vocabulary import FORMATS, STAGES
from harness.written import count


@click.command()
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
@click.option("--baselines", is_flag=True, help="Measure uniform, bag, ngram and window_mlp, too.")
@click.option(
    "--grid",
    "grids",
    multiple=True,
    metavar="NAME=VALUE,VALUE,...",
    help="Cross values of a training setting or a model argument, e.g. lr=1e-4,1e-3,1e-2; repeat for another one.",
)
@click.option("--success", type=float, metavar="SCORE", help="With a grid: the score that makes a seed a success.")
@click.option("--max-trials", type=click.IntRange(min=1), help="With a grid: refuse more  [default: 10000].")
@click.option("--stage", "stages", multiple=True, type=click.Choice(STAGES), help="Only this stage.")
@click.option("--examples", type=click.IntRange(min=1), help="Evaluation examples per condition  [default: 512].")
@click.option("--out", type=OutputFolder(), help="Run directory  [default: runs/<suite>, or runs/<models>+<tasks>].")
@click.option(
    "--fresh",
    is_flag=True,
    help="Train and measure anew what is asked for here; other records in the run directory stay.",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Worker processes  [default: one per core; 1 on cuda].")
@click.option(
    "--executor", metavar="NAME[:ARG=VALUE,...]", help="Where trials run: harness list executors  [default: processes]."
)
@click.option("--timeout", type=float, metavar="SECONDS", help="What a trial may take; what is left then fails.")
@click.option("--retries", type=int, help="New attempts for a trial whose process died  [default: the suite's, or 0].")
@click.option("--memory", type=float, metavar="GiB", help="Main memory for each process of a trial.")
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option("--shard", metavar="I/N", help="Only part I of N of the trials; other machines run the others.")
@click.option("--dry-run", is_flag=True, help="Print the trials and cells (json: with all ids), and run nothing.")
@click.option(
    "--estimate", "timed", is_flag=True, help="As --dry-run; and time a few steps, to say how many hours it takes."
)
@click.option(
    "--budget", type=float, metavar="HOURS", help="Time a few steps, and leave out seeds and grid values beyond that."
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option(
    "--page",
    type=PageFile(),
    is_flag=False,
    flag_value=DEFAULT_PAGE,
    metavar="[FILE.html]",
    help="Write a page with charts too  [default: page.html in the run directory].",
)
@click.pass_context
def run(
    context: click.Context,
    suite: str | None,
    models: tuple[str, ...],
    tasks: tuple[str, ...],
    probes: tuple[str, ...],
    seeds: int | None,
    training: tuple[str, ...],
    baselines: bool,
    grids: tuple[str, ...],
    success: float | None,
    max_trials: int | None,
    stages: tuple[str, ...],
    examples: int | None,
    out: Path | None,
    fresh: bool,
    jobs: int | None,
    device: str,
    executor: str | None,
    timeout: float | None,
    retries: int | None,
    memory: float | None,
    shard: str | None,
    dry_run: bool,
    timed: bool,
    budget: float | None,
    form: str,
    page: Path | None,
) -> None:
    """Train and measure: a SUITE (a TOML file or a built-in name), perhaps with models beside its own; or models
    crossed with tasks and probes.

    What is already in the run directory is not measured again.
    """
    from harness.executors.start import starting

    with nullcontext() if executor else starting():
        from harness.api import prepare
        from harness.report.verdicts import unanswerable
        from harness.requests import build_suite, check_varied, read_grid

        asked = build_suite(
            models or None,
            tasks or None,
            probes or None,
            suite=suite,
            seeds=seeds,
            examples=examples,
            baselines=baselines,
            grid=read_grid(grids) if grids else None,
            success=success,
            max_trials=max_trials,
        )
        ways = _ways(training)
        check_varied(asked, ways, success=success, max_trials=max_trials)
    with redirect_stdout(sys.stderr):  # what plugins print; standard output is for results
        prepared = prepare(
            asked,
            training=ways,
            stages=stages or STAGES,
            out=out,
            jobs=jobs,
            device=device,
            executor=executor,
            timeout=timeout,
            retries=retries,
            memory=memory,
            shard=shard,
            budget=budget,
            fresh=fresh,
            timed=timed,
            announce=lambda text: say(text, error=True),
        )
    out = prepared.out
    page = checked_page(page, out) if page else None
    if dry_run or timed:
        _print_plan(prepared, form)
        context.exit(1 if any(planned.broken for planned in prepared.plan.trials) else 0)
    for line in _times(prepared):
        say(line, error=True)
    try:
        with progress() as report, redirect_stdout(sys.stderr):
            results = prepared.execute(report, warn, first_failures())
    except KeyboardInterrupt:
        say(f"Interrupted. What is finished is in {out}; the same command goes on from there.", error=True)
        context.exit(130)
    _show(results, out, form, page)
    wrong = unanswerable(results.suite, results.records)
    for text in wrong:
        say(f"Error: {text}", error=True)
    context.exit(1 if wrong or any(record.status == "failed" for record in results) else 0)


@click.command()
@click.option("--out", type=OutputFolder(), default=Path("runs/bench"), show_default=True)
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Repetitions.")
@click.option("-m", "--model", "models", multiple=True, hidden=True)
@click.pass_context
def bench(context: click.Context, out: Path, seeds: int, models: tuple[str, ...]) -> None:
    """Time sequential against parallel models on this machine: the suite `bench`, anew, one trial at a time."""
    if models:
        named = " ".join(f"--model {model}" for model in models)
        raise RequestError(f"bench times the models of its own suite; for others: harness run {named} --probe speed")
    context.invoke(run, suite="bench", seeds=seeds, out=out, fresh=True, jobs=1)


def _ways(training: tuple[str, ...]) -> list[dict[str, Any]]:
    from harness.written import parse_arguments

    ways = [parse_arguments(each) for each in training]
    if {} in ways:
        raise RequestError(
            "--training is empty; write SETTING=VALUE, for example --training steps=200, or leave it out"
        )
    return ways


def _show(results: Any, out: Path, form: str, page: Path | None) -> None:
    """The report of a run, its page, and how to see both again."""
    click.echo(rendered(results, results.suite, form))
    if form == "text":
        say(
            f"\n{count(len(results), 'record')} {'is' if len(results) == 1 else 'are'} in {out}/records.\n"
            f"Show them again: harness report {out}   (as data: --format csv)"
        )
    if page:
        write_page(results, page)
        say(f"As a page: {page}", error=form != "text")
    elif form == "text":
        say(f"As a page, with charts: harness report {out} --format html --out page.html")


def _print_plan(prepared: Any, form: str) -> None:
    from harness.cli.planned import plan_data, plan_lines

    plan = prepared.plan
    if form == "json":
        click.echo(plan_data(plan, prepared.out))
    else:
        for line in plan_lines(plan):
            say(line)
    trials, cells = count(len(plan.trials), "trial"), count(len(plan.cells), "cell")
    part = f"shard {plan.shard}: " if plan.shard else ""
    totals = [f"{part}{trials}, {cells}; records would go to {prepared.out}/records"]
    if prepared.estimate is None:
        totals.append("How many hours that takes: --estimate, which times a few steps")
    for line in (*totals, *_times(prepared)):
        say(line, error=form == "json")


def _times(prepared: Any) -> Iterator[str]:
    """How long it takes, if that was asked for, and what does not fit the budget."""
    from harness.estimating import duration

    known = prepared.estimate
    if known is None:
        return
    at_once = f", {known.jobs} trials at a time" if known.jobs > 1 else ""
    left = count(len([each for each in prepared.plan.trials if each.trial.id in known.seconds]), "trial")
    if left == "0 trials":
        yield "nothing is left to run: all of it is measured already"
        return
    yield f"about {duration(prepared.hours)} for {left} that {'is' if left == '1 trial' else 'are'} left{at_once}"
    yield from (f"not counted: {text}" for text in known.unknown)
    if prepared.left_out:
        yield f"{prepared.left_out} All of it would take about {duration(known.hours)}."
