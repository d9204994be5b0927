"""The command that makes a run again."""

import shlex
from collections.abc import Sequence

from harness.schema import Record
from harness.suites import Request, Suite, format_arguments


def command_of(suite: Suite | None, records: Sequence[Record]) -> str:
    """As one types it; "" where the suite is not kept."""
    if suite is None:
        return ""
    seeds = ["--seeds", str(suite.seeds)]
    if len(suite.experiments) != 1 or suite.claims or suite.summary:
        return shlex.join(["harness", "run", suite.name, *seeds])
    (experiment,) = suite.experiments
    words = ["harness", "run"]
    for option, requests in (("-m", experiment.models), ("-t", experiment.tasks), ("-p", experiment.probes)):
        for request in requests:
            words += [option, _written(request)]
    trainings = {record.training for record in records}
    ways = experiment.training if isinstance(experiment.training, list) else [experiment.training]
    for way in ways:
        if way and trainings:
            words += ["--training", format_arguments(way)]
    if suite.examples != 512:
        words += ["--examples", str(suite.examples)]
    return shlex.join([*words, *seeds])


def _written(request: Request) -> str:
    return f"{request.alias}={request.bare}" if request.alias else str(request)
