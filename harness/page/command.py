"""What was asked for, as a command."""

import shlex
from collections.abc import Iterator

from harness.suites import Request, Suite
from harness.written import format_arguments


def command_of(suite: Suite | None) -> str:
    """As one types it, as far as a suite keeps it: options that add to a suite (`--training`) are with the records; ""
    where the suite is not kept."""
    if suite is None:
        return ""
    own = any(experiment.seeds is not None for experiment in suite.experiments)
    seeds = [] if own else ["--seeds", str(suite.seeds)]  # which would win over those of an experiment
    beside = [word for request in suite.beside for word in ("-m", _written(request))]
    asked = suite.experiments[:1] if suite.baselines else suite.experiments  # baselines have experiments of their own
    if len(asked) != 1 or suite.claims or suite.summary:
        return shlex.join(["harness", "run", suite.name, *beside, *_varied(suite), *seeds])
    (experiment,) = asked
    words = ["harness", "run"]
    for option, requests in (("-m", experiment.models), ("-t", experiment.tasks), ("-p", experiment.probes)):
        for request in requests:
            words += [option, _written(request)]
    return shlex.join([*words, *_varied(suite), *seeds])


def _varied(suite: Suite) -> Iterator[str]:
    """What may be the user's own, also where it is the suite's: saying it again changes nothing."""
    for name, values in suite.grid.items():
        listed = (format_arguments({name: value}).partition("=")[2] for value in values)
        yield from ("--grid", f"{name}={','.join(listed)}")
    if suite.grid and suite.success is not None:
        yield from ("--success", f"{suite.success:g}")
    if suite.examples != Suite.model_fields["examples"].default:
        yield from ("--examples", str(suite.examples))
    if suite.baselines:
        yield "--baselines"


def _written(request: Request) -> str:
    return f"{request.alias}={request.bare}" if request.alias else str(request)
