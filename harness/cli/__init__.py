"""The command line. Thin: it reads the request, calls the library and prints."""

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import click
from click.exceptions import Exit

from harness.cli.common import open_standard_files, print_anything, say
from harness.errors import HarnessError, RequestError, did_you_mean, shortened
from harness.safe import visible_lines

COMMANDS = {
    "run": "running",
    "report": "showing",
    "plot": "plotting",
    "compare": "comparing",
    "list": "plugins",
    "show": "plugins",
    "bench": "running",
    "ledger": "ledger",
    "new": "authors",
    "check": "authors",
    "verify": "verifying",
    "merge": "merging",
    "clean": "cleaning",
    "schema": "showing",
}
"""In the order of `--help`, with the module that has each: it is imported for whoever asks for the command."""


@contextmanager
def _ended_well() -> Iterator[None]:
    """An error is one paragraph without a traceback, and the exit code says which kind it was.

    Raises:
        Exit: with that code.
    """
    try:
        yield
    except HarnessError as error:
        say(f"Error: {error}", error=True)
        raise Exit(2 if isinstance(error, RequestError) else 1) from error
    except click.ClickException as error:  # click repeats what was typed, however long it is
        vars(error)["message"] = visible_lines(shortened(error.message))
        raise
    except OSError as error:
        if error.filename is not None or error.errno == errno.EPIPE:  # not from writing to standard output
            raise
        click.echo(f"Error: the output cannot be written: {error.strerror}", err=True)
        with suppress(OSError, ValueError):  # or Python would try again at its end, and say so
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Exit(1) from error
    except KeyboardInterrupt as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of whoever is impatient
        from harness.executors.start import stop

        stop()
        click.echo("Interrupted.", err=True)
        raise Exit(130) from error


class HarnessGroup(click.Group):
    """All commands, in an order that tells a story."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found = vars(import_module(f"harness.cli.{COMMANDS[cmd_name]}")).values()
        return next(each for each in found if isinstance(each, click.Command) and each.name == cmd_name)

    def main(self, *args: Any, **more: Any) -> Any:
        open_standard_files()
        return super().main(*args, **more)

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        with _ended_well():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        print_anything()
        with _ended_well():
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]  # which click takes away, if it is an option
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(error.message + did_you_mean(name, self.list_commands(ctx)), ctx) from None


@click.group(cls=HarnessGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sequence-harness", prog_name="harness")
def main() -> None:
    """Ask a sequence architecture: does gradient reach, does it look, does it rely, does it extrapolate?

    \b
    harness run --model lstm --probe grad_reach
    harness run --model lstm --model gpt:position=none --task recall:train_max=100
    harness run recall --jobs 2
    """
