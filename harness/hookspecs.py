"""The whole plugin contract of the registry, on one page.

A plugin package names a module under the entry-point group `harness`; the module implements any of these hooks:

    # pyproject.toml                        # acme_gru/__init__.py
    [project.entry-points.harness]          from harness import ModelSpec, hookimpl
    acme-gru = "acme_gru"
                                            @hookimpl
                                            def harness_models():
                                                yield ModelSpec("acme-gru", "acme_gru.model:GRU", summary="...")

Keep that module light: import torch in the module the target points to.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

from harness.specs import ExecutorSpec, ModelSpec, ProbeSpec, SuiteSpec, TaskSpec

if TYPE_CHECKING:
    from harness.schema import Record, Trial

PROJECT = "harness"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def harness_models() -> Iterable[ModelSpec]:
    """Return or yield the models this plugin offers."""
    raise NotImplementedError


@hookspec
def harness_tasks() -> Iterable[TaskSpec]:
    """Return or yield the tasks this plugin offers."""
    raise NotImplementedError


@hookspec
def harness_probes() -> Iterable[ProbeSpec]:
    """Return or yield the probes this plugin offers."""
    raise NotImplementedError


@hookspec
def harness_suites() -> Iterable[SuiteSpec]:
    """Return or yield the suites (TOML files) this plugin offers."""
    raise NotImplementedError


@hookspec
def harness_executors() -> Iterable[ExecutorSpec]:
    """Return or yield the places for trials to run that this plugin offers."""
    raise NotImplementedError


@hookspec
def harness_unknown(kind: str, name: str) -> Iterable[str]:
    """Return or yield sentences on what may be meant by a name that nobody offers, for the end of the error message.

    Args:
        kind: of the plugin that was asked for, for example `model`.
        name: what the user wrote.
    """
    raise NotImplementedError


@hookspec
def harness_trial_started(trial: "Trial") -> None:
    """Called before a trial is built and trained, in the process that runs it."""


@hookspec
def harness_record_written(record: "Record") -> None:
    """Called after a record is safely on disk, in the process that started the run."""


@hookspec
def harness_report_sections(records: "list[Record]") -> Iterable[tuple[str, str]]:
    """Return or yield extra `(title, text)` sections for the end of a report for people, or of a page."""
    raise NotImplementedError
