"""Checks in a process of their own, so that a plugin that ends it or hangs costs its own checks, and no others."""

import faulthandler
import re
from collections.abc import Collection, Generator, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import TIMEOUT_MAX
from time import monotonic

from harness import errors
from harness.errors import HarnessError, RequestError, place_among
from harness.executors.children import Child, Say, die_at_once, how_it_ended, in_short, listen, working
from harness.registry import default_registry
from harness.testing.checks import check
from harness.testing.installed import check_installed, short_name
from harness.testing.results import CheckReport, CheckResult, Key

GRACE = 0.5
"""Seconds in which the process can still write down where it is."""


@check(
    asks="every check of it comes to an end",
    means="a run loses its process, or waits for it until the trial's timeout",
    fix="look at what it does in that check; a check that needs longer gets it by --timeout",
)
def answers(case: object) -> None:
    """Decided by the process that waits for the checks."""


def check_apart(names: Sequence[str], kind: str | None, timeout: float) -> Iterator[CheckReport]:
    """The reports of `check_installed`; a plugin whose check hangs, or ends the process, fails the check `answers`.

    Args:
        names: requests as for `harness run`; all plugins if there are none.
        kind: only `model`, `task` or `probe`.
        timeout: seconds that one check may take.

    Raises:
        RequestError: see `check_installed`; or the timeout makes no sense.
        HarnessError: the process failed, and no plugin was being checked.
    """
    if not timeout > 0:
        raise RequestError(f"timeout is a number of seconds above 0; received {timeout}")
    done: set[Key] = set()
    with TemporaryDirectory() as folder:
        places = Path(folder, "places")
        while True:
            with working(_check, tuple(names), kind, frozenset(done), timeout, places) as child:
                ended = yield from _reports(child, timeout, done, places)
            if ended is None:
                return
            yield ended


def _reports(
    child: Child, timeout: float, done: set[Key], places: Path
) -> Generator[CheckReport, None, CheckReport | None]:
    """The reports that come; in the end that of a plugin at which the process ended or hung, if there was one."""
    checking: tuple[Key, str] | None = None
    begun, sign = False, monotonic()
    while True:
        listen([child], min(1.0, timeout))
        code = child.exitcode
        for what, *more in child.heard():
            begun, sign = True, monotonic()
            if what == "checking":
                checking = more[0], more[1]
            elif what == "report":
                done.add(more[0])
                yield more[1]
                checking = None
            elif what == "refused":
                raise getattr(errors, more[0])(more[1])
            elif what == "raised":
                raise HarnessError(f"the checks failed: {in_short(more[0])}")
            elif what == "end":
                return None
        if code is not None:
            if not begun:
                raise HarnessError(die_at_once(code))
            problem, where = f"the process died ({how_it_ended(code)})", ""
        elif monotonic() - sign > timeout + GRACE:
            problem, where = f"no answer in {timeout:g} s (--timeout)", place_of_hang(places)
        else:
            continue
        if checking is None:
            raise HarnessError(f"no plugin was being checked, and {problem}")
        key, name = checking
        done.add(key)
        failed = CheckResult(answers, "failed", f"{problem} in the check {name!r}", where)
        return CheckReport(key[0] or "plugin", short_name(key[1]), (failed,))


def place_of_hang(places: Path) -> str:
    """File and line of the plugin, from what `faulthandler` has written."""
    text = places.read_text(encoding="utf-8", errors="replace") if places.exists() else ""
    main = text.rpartition("hread 0x")[2]  # the main thread comes last, its innermost frame first
    frames = re.findall(r'^  File "(.*)", line (\d+) in ', main, re.MULTILINE)
    return place_among((file, int(line)) for file, line in frames)


def _check(
    say: Say, names: tuple[str, ...], kind: str | None, done: Collection[Key], timeout: float, places: Path
) -> None:
    """In the new process."""
    with places.open("w", encoding="utf-8") as file:

        def announce(key: Key, check: str) -> None:
            faulthandler.dump_traceback_later(min(timeout, TIMEOUT_MAX), file=file)
            say("checking", key, check)

        try:
            for key, report in check_installed(default_registry(), names, kind, done=done, announce=announce):
                say("report", key, report)
        except HarnessError as error:
            say("refused", type(error).__name__, str(error))
        else:
            say("end")
