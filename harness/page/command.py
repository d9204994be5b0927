"""What was asked for, as a command."""

import shlex

from harness.suites import Request, Suite, format_arguments


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
        return shlex.join(["harness", "run", suite.name, *beside, *seeds])
    (experiment,) = asked
    words = ["harness", "run"]
    for option, requests in (("-m", experiment.models), ("-t", experiment.tasks), ("-p", experiment.probes)):
        for request in requests:
            words += [option, _written(request)]
    for name, values in suite.grid.items():
        listed = (format_arguments({name: value}).partition("=")[2] for value in values)
        words += ["--grid", f"{name}={','.join(listed)}"]
    words += ["--baselines"] * suite.baselines
    if suite.examples != Suite.model_fields["examples"].default:
        words += ["--examples", str(suite.examples)]
    return shlex.join([*words, *seeds])


def _written(request: Request) -> str:
    return f"{request.alias}={request.bare}" if request.alias else str(request)
