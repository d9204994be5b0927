"""The command `harness verify`."""

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

import click

from harness.cli.common import OutputFolder, progress, say, terminal_width
from harness.errors import RequestError
from harness.written import count


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--long", is_flag=True, help="Train the models whose answers are known, too; takes minutes.")
@click.option("--out", type=OutputFolder(), help="Run directory of --long  [default: runs/known-answers].")
@click.option("--jobs", type=click.IntRange(min=1), help="Worker processes of --long  [default: one per core].")
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def verify(
    context: click.Context,
    names: tuple[str, ...],
    long: bool,
    out: Path | None,
    jobs: int | None,
    device: str,
    form: str,
) -> None:
    """Does the instrument give the answers that are known? Laws of attention, positions, recurrence, with their errors.

    NAME is a group of laws, which is a probe (`attention_laws`), or one law; without one, all are verified. Each is put
    to models whose answer is known, in double precision, without training. The exit code is 1 if one is broken.
    To put a model of your own to the same laws, run the probe: harness run --model ./mine.py:Attention --task noise
    --probe attention_laws

    With --long, the suite `known-answers` is run afterwards, and each of its claims must hold. What is in its run
    directory already is not trained again.

    \b
    harness verify
    harness verify softmax_laws "future is unseen" --device cuda
    harness verify --long
    """
    from harness.known_answers import KnownAnswers
    from harness.report.elements import in_safety
    from harness.report.writers import write
    from harness.verifying import as_dict, blocks, verify

    if not long and (out or jobs):
        raise RequestError("--out and --jobs are for --long: without it nothing is run that would leave records")
    with redirect_stdout(sys.stderr):  # what plugins print; and what is wrong is told before anything is verified
        trained = KnownAnswers(device=device, out=out, jobs=jobs) if long else None
    found = []
    for each in verify(names, device=device):
        found.append(each)
        if form == "text":
            say(write([in_safety(block) for block in blocks(each)], form, terminal_width()))
    judged = [law for each in found for law in each.judged if law.answer]
    if not judged:
        raise RequestError(
            "no law was put to any model: each was skipped, or no probe of laws loads (see harness list)"
        )
    broken = sum(law.broken for law in judged)
    laws = len({(each.group, law.name) for each in found for law in each.judged if law.answer})
    told = [as_dict(each) for each in found]
    if form == "text":
        say(f"{count(laws, 'law')}, {count(len(judged), 'answer')}: {f'{broken} wrong' if broken else 'all right'}.")
    if trained is not None:
        with progress() as report, redirect_stdout(sys.stderr):
            trained.run(report)
        broken += len(trained.wrong)
        told.append(trained.as_dict())
        if form == "text":
            say("\n" + write([in_safety(block) for block in trained.blocks()], form, terminal_width()))
    if form == "json":
        click.echo(json.dumps(told, indent=1))
    context.exit(1 if broken else 0)
