"""The command `harness ledger`."""

import json

import click

from harness.cli.common import say, terminal_width
from harness.vocabulary import DRAWN


@click.command()
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@click.option("--length", type=click.IntRange(min=1), default=256, show_default=True, help="Tokens of the sequence.")
@click.option(
    "--vocabulary",
    type=click.IntRange(min=1),
    help="Number of token ids  [default: those of its tokenizer, or 256].",
)
@click.option("--format", "form", type=click.Choice([*DRAWN, "json"]), default="text")
def ledger(models: tuple[str, ...], length: int, vocabulary: int | None, form: str) -> None:
    """Count what a model is made of: parameters, operations, memory for the next token, order of steps, by part.

    Nothing is trained or timed, and weights take no memory, so that models of any size are counted. Beside measured
    time: harness run --model MODEL --probe ledger

    \b
    harness ledger lstm gpt --length 1024
    harness ledger hf:config=gpt2 --length 1024 --vocabulary 50257
    """
    from dataclasses import asdict

    from harness.ledger import ledger as count
    from harness.ledger.table import blocks
    from harness.report.elements import in_safety
    from harness.report.writers import write

    found = {name: count(name, length=length, vocabulary=vocabulary) for name in models}
    if form == "json":
        click.echo(json.dumps({name: asdict(each) for name, each in found.items()}, indent=1))
        return
    parts = [in_safety(block) for name, each in found.items() for block in blocks(name, each)]
    say(write(parts, form, terminal_width()).rstrip("\n"))
