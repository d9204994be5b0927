"""The command `harness verify`."""

import json

import click

from harness.cli.common import counted, say, terminal_width
from harness.errors import RequestError


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def verify(context: click.Context, names: tuple[str, ...], device: str, form: str) -> None:
    """Does the instrument give the answers that are known? Laws of attention, positions, recurrence, with their errors.

    NAME is a group of laws, which is a probe (`attention_laws`), or one law; without one, all are verified. Each is put
    to models whose answer is known, in double precision, without training. The exit code is 1 if one is broken.
    To put a model of your own to the same laws, run the probe: harness run --model ./mine.py:Attention --task noise
    --probe attention_laws

    \b
    harness verify
    harness verify softmax_laws "future is unseen" --device cuda
    """
    from harness.report.elements import in_safety
    from harness.report.writers import write
    from harness.verifying import as_dict, blocks, verify

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
    if form == "json":
        click.echo(json.dumps([as_dict(each) for each in found], indent=1))
    else:
        laws = len({(each.group, law.name) for each in found for law in each.judged if law.answer})
        say(
            f"{counted(laws, 'law')}, {counted(len(judged), 'answer')}: {f'{broken} wrong' if broken else 'all right'}."
        )
    context.exit(1 if broken else 0)
