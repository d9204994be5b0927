"""Plans are made where trials run: in a process of its own, so that no plugin is imported into the caller's."""

import signal
import time
from collections.abc import Sequence

from harness import errors
from harness.errors import HarnessError, PluginError
from harness.executors import Executor
from harness.executors.children import Child, Say, die_at_once, how_it_ended, in_short, listen, working
from harness.plan import Plan, make_plan
from harness.registry import default_registry
from harness.suites import Suite, Ways
from harness.vocabulary import STAGES

PATIENCE = 600.0
"""Seconds that the import of one plugin may take, if trials have no timeout, and those that all the rest may take."""

COLD = 30.0
"""Seconds that an import may take in any case: the first one reads much from a disk, and the next ones do not."""

FROM_OUTSIDE = {-getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGKILL", "SIGTERM") if hasattr(signal, name)}
"""Exit codes of a process that somebody may have killed, and not what was imported in it."""


def plan_for(
    executor: Executor,
    suite: Suite,
    *,
    device: str,
    training: Ways | None = None,
    stages: Sequence[str] = STAGES,
    timeout: float | None = None,
) -> Plan:
    """What `make_plan` makes of a suite, in this process if trials run here, or else in one that ends with it.

    A plugin whose import ends that process, or does not end, is broken like one whose import raises: its cells fail.
    Where the process was killed, that is tried once more, since it may have been somebody else.

    Args:
        executor: where trials run.
        suite: what to plan.
        device: see `make_plan`, as for `training` and `stages`.
        training: see there.
        stages: see there.
        timeout: seconds that a trial may take, and with it the import of a plugin.

    Raises:
        RequestError: see `make_plan`.
        PluginError: the process ended, or hung, and no plugin was being imported.
    """
    if getattr(executor, "here", False):
        return make_plan(suite, default_registry(), device=device, training=training, stages=stages)
    deadly: dict[tuple[str, str], str] = {}
    forgiven: list[int] = []
    while True:
        with working(_plan, suite, device, training, stages, deadly) as child:
            plan = _listen(child, deadly, PATIENCE if timeout is None else max(timeout, COLD), forgiven)
        if plan is not None:
            return plan


def _listen(child: Child, deadly: dict[tuple[str, str], str], patience: float, forgiven: list[int]) -> Plan | None:
    """The plan; None if the process came to none, and it is noted whose fault that is, or that it was killed."""
    importing: tuple[str, str] | None = None
    begun = False
    sign = time.monotonic()
    while True:
        listen([child], 1.0)
        code = child.exitcode
        for what, *more in child.heard():
            sign, begun = time.monotonic(), True
            if what == "plan":
                plan: Plan = more[0]
                return plan
            if what == "refused":
                raise getattr(errors, more[0])(more[1])
            if what == "raised":
                raise HarnessError(f"the plan cannot be made: {in_short(more[0])}")
            if what in ("asking", "asked"):
                importing = more[0] if what == "asking" else None
        if code is not None:
            if not begun:
                raise HarnessError(die_at_once(code))
            if code in FROM_OUTSIDE and not forgiven:
                forgiven.append(code)
                return None
            problem = f"the process died: {how_it_ended(code)}"
        elif time.monotonic() - sign > (allowed := patience if importing else PATIENCE):
            problem = f"no answer in {allowed:g} s"
        else:
            continue
        if importing is None or importing in deadly:
            raise PluginError(f"a plugin failed while the run was planned, and nothing was started; {problem}")
        kind, name = importing
        deadly[importing] = f"{kind} {name!r} failed while being imported: {problem}"
        return None


def _plan(
    say: Say,
    suite: Suite,
    device: str,
    training: Ways | None,
    stages: Sequence[str],
    deadly: dict[tuple[str, str], str],
) -> None:
    """In the new process."""
    registry = default_registry()
    try:
        plan = make_plan(
            suite,
            registry,
            device=device,
            training=training,
            stages=stages,
            deadly=deadly,
            announce=lambda *asked: say("asking", asked) if asked else say("asked"),
        )
    except HarnessError as error:
        say("refused", type(error).__name__, str(error))
    else:
        say("plan", plan)
