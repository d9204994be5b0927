"""What a plugin says about itself. Light on purpose: listing a hundred plugins imports none of their code."""

from dataclasses import dataclass
from typing import ClassVar

CONTRACT_VERSION = 1
"""The version of the plugin contract this harness speaks; a spec states the one it was written for."""


@dataclass(frozen=True)
class Spec:
    """A named pointer to the code of a plugin.

    Args:
        name: what users type, for example `lstm`; lower-case letters, digits, `-` and `_`.
        target: where the code is, as `"package.module:Name"`; imported only when it is needed.
        summary: one line for `harness list`.
        contract: the contract version the plugin was written for.
    """

    name: str
    target: str
    summary: str = ""
    contract: int = CONTRACT_VERSION

    kind: ClassVar[str]


@dataclass(frozen=True)
class ModelSpec(Spec):
    """A sequence architecture: an `nn.Module` that maps tokens to logits (see `harness.contracts`).

    Args:
        baseline: whether it is there to compare others with: `baselines = true` crosses it into any suite.
    """

    baseline: bool = False

    kind: ClassVar[str] = "model"


class TaskSpec(Spec):
    """A task: a stream of training data, evaluation conditions and a score (see `harness.contracts.Task`)."""

    kind: ClassVar[str] = "task"


class ProbeSpec(Spec):
    """A probe: a function or class that measures a `harness.subject.Subject`."""

    kind: ClassVar[str] = "probe"


class SuiteSpec(Spec):
    """A suite shipped with a package; the target is `"package:file.toml"`."""

    kind: ClassVar[str] = "suite"


class ExecutorSpec(Spec):
    """A place where trials run: a function or class that gives an executor (see `harness.executors`)."""

    kind: ClassVar[str] = "executor"


KINDS: dict[str, type[Spec]] = {spec.kind: spec for spec in (ModelSpec, TaskSpec, ProbeSpec, SuiteSpec, ExecutorSpec)}
