"""`harness verify`: every law of every installed probe, put to the models whose answers are known."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from harness.batches import Interface
from harness.build import build_model, build_task
from harness.contracts import Task
from harness.devices import check_device
from harness.errors import HarnessError, RequestError, describe, did_you_mean
from harness.isolation import one_trial
from harness.laws import Answer, Judged, Known, Laws, name_of
from harness.plugin import Plugin, resolve
from harness.registry import Entry, Registry, default_registry
from harness.report.elements import Block, Heading, Items, Table
from harness.report.export import plain
from harness.report.layout import Column
from harness.subject import Subject
from harness.suites import Request
from harness.targets import find_entry, load_definition


@dataclass(frozen=True)
class Verified:
    """The laws of one probe, put to one model.

    Args:
        group: the probe.
        subject: the model and its task, as a user names them.
        judged: every law, whether it applies or not.
    """

    group: str
    subject: str
    judged: Sequence[Judged]


class _Tokens(Task):
    """The task of a model of tokens that is built, and not run."""

    def __init__(self, vocabulary: int) -> None:
        self.metrics = {}
        self.interface = Interface(vocabulary, vocabulary)


def verify(names: Collection[str] = (), *, device: str = "cpu", registry: Registry | None = None) -> Iterator[Verified]:
    """Put laws to the models that their probes name (`Laws.known`).

    A probe or model that raises has broken its laws, and the others are verified.

    Args:
        names: probes, or laws by name; all, if none is given.
        device: where models are.
        registry: where names are looked up; what is installed, if not said.

    Raises:
        RequestError: no probe or law has that name, or there is no such device.
    """
    check_device(device)
    registry = registry or default_registry()
    groups = list(_groups(registry))
    _check(names, groups)
    return _verified(names, device, registry, groups)


def _verified(
    names: Collection[str], device: str, registry: Registry, groups: Sequence[tuple[Entry, type[Laws]]]
) -> Iterator[Verified]:
    wanted = {_plain(name) for name in names}
    for entry, code in groups:
        group = entry.spec.name
        laws = {name_of(law) for law in code.laws}
        if wanted and _plain(group) not in wanted:
            laws = {law for law in laws if _plain(law) in wanted}
        if not laws:
            continue
        for known in code.known:
            subject = f"{known.model} on {known.task}" if known.task else f"{known.model}, {known.vocabulary} tokens"
            try:
                with one_trial(torch.device(device), 1):
                    probe = _resolved(registry, "probe", entry.spec.name, known.arguments or {}).construct()
                    judged = probe.judged(_subject(registry, known, device), laws.__contains__)
            except Exception as error:
                reason = str(error) if isinstance(error, HarnessError) else describe(error)
                judged = [Judged("can be put to the laws", "It is built.", Answer(math.nan, math.nan, 0.0), reason)]
            if any(each.answer for each in judged):
                yield Verified(group, subject, judged)


def _groups(registry: Registry) -> Iterator[tuple[Entry, type[Laws]]]:
    for entry in registry.all("probe"):
        try:
            code: Any = load_definition(entry).code
        except HarnessError:
            continue  # a broken probe of somebody is told of by whatever uses it
        if isinstance(code, type) and issubclass(code, Laws) and code.known:
            yield entry, code


def _check(names: Collection[str], groups: Sequence[tuple[Entry, type[Laws]]]) -> None:
    known = {entry.spec.name: None for entry, _ in groups} | {
        name_of(law): None for _, code in groups for law in code.laws
    }
    plain = {_plain(name) for name in known}
    for name in names:
        if _plain(name) not in plain:
            probes = ", ".join(entry.spec.name for entry, _ in groups)
            raise RequestError(
                f"no law or group of laws is called {name!r}.{did_you_mean(name, known)} Groups: {probes}; without a "
                "name, harness verify lists every law."
            )


def _plain(name: str) -> str:
    return name.replace("_", " ").replace("-", " ").lower()


def _resolved(registry: Registry, kind: str, name: str, arguments: Any) -> Plugin:
    request = Request(name=name, arguments=dict(arguments))
    return resolve(load_definition(find_entry(registry, kind, request.name)), request)


def _subject(registry: Registry, known: Known, device: str) -> Subject:
    asked = Request.model_validate(known.model)
    plugin = _resolved(registry, "model", asked.name, asked.arguments)
    task: Task
    if known.task is None:
        task = _Tokens(known.vocabulary)
        with torch.device("meta"):
            model: nn.Module = plugin.construct(vocab_size=known.vocabulary, interface=task.interface)
    else:
        wanted = Request.model_validate(known.task)
        task = build_task(_resolved(registry, "task", wanted.name, wanted.arguments))
        model = build_model(plugin, task.interface, seed=0, device=device)
    return Subject(model.eval(), task, stage="initial", seed=0, device=torch.device(device), examples=4)


def blocks(found: Verified) -> list[Block]:
    """What was found, for people."""
    rows = [(each, each.answer) for each in found.judged if each.answer is not None]
    columns = [
        Column("law", [each.name for each, _ in rows], "label"),
        Column("value", [f"{answer.value:.10g}" for _, answer in rows]),
        Column("expected", [f"{answer.expected:.10g}" for _, answer in rows]),
        Column("error", [f"{answer.error:.1e}" if answer.error else f"{answer.error:g}" for _, answer in rows]),
        Column("tolerance", [f"{answer.tolerance:.0e}" if answer.tolerance else "exact" for _, answer in rows]),
        Column("", ["FAIL" if each.broken else "pass" for each, _ in rows], "label"),
    ]
    wrong = [f"{each.name}: {each.says} {each.reason}".rstrip() for each, _ in rows if each.broken]
    parts: list[Block] = [Heading(f"{found.group}: {found.subject}"), Table(columns)]
    return [*parts, Items(wrong)] if wrong else parts


def as_dict(found: Verified) -> dict[str, Any]:
    """What was found, as JSON has it: numbers that are not finite are text, as in records."""
    answered = [(each, each.answer) for each in found.judged if each.answer is not None]
    content: dict[str, Any] = plain(
        {
            "group": found.group,
            "subject": found.subject,
            "laws": [
                {
                    "law": each.name,
                    "says": each.says,
                    "value": answer.value,
                    "expected": answer.expected,
                    "error": answer.error,
                    "tolerance": answer.tolerance,
                    "holds": answer.holds,
                    "reason": each.reason,
                }
                for each, answer in answered
            ],
        }
    )
    return content
