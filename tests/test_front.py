"""The library's front and the command line ask for the same."""

import inspect
import re

import harness
from harness.cli.running import run as command

ASIDE = {"dry_run", "timed", "form", "page"}
"""Options that print a plan or write a report, for which a script has functions of their own."""

PLURAL = {"grids": "grid"}
"""Options that may be repeated, of what a script gives at once."""


def test_whatever_the_command_takes_a_script_can_say() -> None:
    """And the other way round: `harness run` and `harness.run` have the same arguments."""
    options = {PLURAL.get(str(each.name), str(each.name)) for each in command.params}
    assert options - ASIDE == set(inspect.signature(harness.run).parameters)
    assert options >= ASIDE


def test_every_argument_is_explained() -> None:
    """Each argument of `harness.run` in its docstring, in the order in which it is taken."""
    arguments = (inspect.getdoc(harness.run) or "").partition("Raises:")[0]
    assert re.findall(r"^    (\w+): .", arguments, re.MULTILINE) == [*inspect.signature(harness.run).parameters]
