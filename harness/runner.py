"""From a trial to its records: build, measure, train once, measure again, write each record as soon as it is known."""

import hashlib
import random
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy
import safetensors
import safetensors.torch
import torch
from torch import nn

from harness.blame import blame, failure
from harness.contracts import Batch, Condition, Skip, Subject, Task, seeded
from harness.errors import PluginError, StoreError
from harness.needs import unmet
from harness.plan import Planned
from harness.provenance import provenance
from harness.registry import Registry, default_registry
from harness.schema import (
    Cell,
    Curve,
    Failure,
    Matrix,
    ModelUse,
    PluginUse,
    Record,
    Scalar,
    Timing,
    Trained,
)
from harness.store import RunDirectory, replaced
from harness.suites import Request
from harness.targets import Target, load_use
from harness.training import train
from harness.vocabulary import Stage

Progress = Callable[[float], None]
"""Called with the share of the trial that is done, 0 to 1."""


@dataclass(frozen=True)
class Work:
    """A trial to run, with all that a worker process needs to know."""

    planned: Planned
    out: Path
    threads: int = 1
    revision: str | None = None
    dirty: bool | None = None
    started: datetime = field(default_factory=lambda: datetime.now(UTC))


def run_trial(work: Work, progress: Progress = lambda share: None) -> Iterator[Record]:
    """Run a trial's cells; every record is on disk before it is yielded. Whatever a plugin does, each cell gets one.

    Raises:
        StoreError: the run directory can no longer be written.
    """
    run, written = _Run(work, progress), set()
    try:
        with _one_trial(work):
            for record in run.records():
                written.add(record.id)
                yield record
    except StoreError:
        raise
    except Exception as error:  # the device itself failed, for example
        yield from run._fail([cell for cell in work.planned.cells if cell.id not in written], failure(error))


@contextmanager
def _one_trial(work: Work) -> Iterator[None]:
    """Fixed threads and a random state of the trial's own; the caller's are restored."""
    device = torch.device(work.planned.trial.device)
    threads, tf32 = torch.get_num_threads(), torch.backends.cudnn.allow_tf32
    states = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.set_num_threads(work.threads)
        torch.backends.cudnn.allow_tf32 = False  # ten bits of a mantissa are too few for a leak of exactly 0
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.backends.cudnn.allow_tf32 = tf32
            random.setstate(states[0])
            numpy.random.set_state(states[1])


def _seed_everything(what: str, seed: int) -> None:
    """Whatever a plugin draws from a global random state depends on the trial alone."""
    number = seeded(what, seed).initial_seed()
    torch.manual_seed(number)
    random.seed(number)
    numpy.random.seed(number % 2**32)


@dataclass
class _Run:
    """One trial on its way; what is known so far goes into each record."""

    work: Work
    progress: Progress
    parameters: int | None = None
    trained: Trained | None = None
    data: str = ""
    notes: list[str] = field(default_factory=list)
    batches: dict[Condition, Batch] = field(default_factory=dict)
    task: Task = field(init=False)
    model: nn.Module = field(init=False)

    def records(self) -> Iterator[Record]:
        planned = self.work.planned
        if planned.broken:
            yield from self._fail(planned.cells, planned.broken)
            return
        try:
            registry = default_registry()
            registry.notify("harness_trial_started", trial=planned.trial)
            self._build(registry)
        except Skip as skip:
            for cell in planned.cells:
                yield self._write(cell, "skipped", reason=str(skip))
            return
        except Exception as error:
            yield from self._fail(planned.cells, failure(error))
            return
        yield from self._stage("initial", registry)
        cells = [cell for cell in planned.cells if cell.stage == "trained"]
        try:
            # where all cells will be skipped, or their probes are broken, no training is needed to say so
            if not planned.trial.pretrained and not all(self._pointless(cell, registry) for cell in cells):
                self._train(registry)
        except Skip as skip:
            for cell in cells:
                yield self._write(cell, "skipped", reason=str(skip))
            return
        except StoreError:
            raise
        except Exception as error:
            yield from self._fail(cells, failure(error))
            return
        yield from self._stage("trained", registry)

    def _build(self, registry: Registry) -> None:
        trial = self.work.planned.trial
        device = torch.device(trial.device)
        task_target, model_target = (_planned(registry, kind, getattr(trial, kind)) for kind in ("task", "model"))
        supplied = {}
        if task_target.wants("tokenizer"):
            with blame(trial.model, "giving its tokenizer"):
                offered = getattr(model_target.code, "tokenizer", lambda **arguments: None)
                supplied["tokenizer"] = offered(**trial.model.arguments)
        with blame(trial.task, "being constructed"):
            self.task = task_target.build(trial.task.arguments, **supplied)
        self.notes = [str(note) for note in self.task.notes]
        interface = self.task.interface
        accepts = getattr(model_target.code, "accepts", ("tokens",))
        if interface.input not in accepts:
            raise Skip(f"the task gives {interface.input}, the model accepts {' and '.join(accepts)}")
        _seed_everything("model", trial.seed)
        with blame(trial.model, "being constructed"):
            model = model_target.build(trial.model.arguments, vocab_size=interface.input_size, interface=interface)
            if not isinstance(model, nn.Module):
                raise TypeError(f"it gave a {type(model).__name__}; a model is a torch.nn.Module")
            self.model = model.to(device)
        self.parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self._check_forward(self._subject("initial"))

    def _check_forward(self, subject: Subject) -> None:
        """The first forward pass, so that a wrong shape is named before anything is trained."""
        trial, interface = self.work.planned.trial, self.task.interface
        with blame(trial.task, "making evaluation data"):
            batch = subject.batch(self.task.conditions()[0])[:2]
            self.data = _data_digest(subject)
        with blame(trial.model, "computing its first outputs"):
            with torch.inference_mode():
                outputs = self.model(batch.tokens)
            expected = (*batch.tokens.shape[:2], interface.output_size)
            if not isinstance(outputs, torch.Tensor) or outputs.shape != expected:
                received = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
                raise ValueError(f"it returned {received} where (batch, time, outputs) = {expected} is expected")
            if not torch.isfinite(outputs).all():
                raise ValueError("its outputs are not finite (NaN or infinity) before any training")

    def _subject(self, stage: Stage) -> Subject:
        trial = self.work.planned.trial
        self.model.eval()
        examples = self.work.planned.cells[0].examples
        return Subject(
            self.model,
            self.task,
            stage=stage,
            seed=trial.seed,
            device=torch.device(trial.device),
            examples=examples,
            batches=self.batches,
            trial=trial,
        )

    def _train(self, registry: Registry) -> None:
        store, trial = RunDirectory(self.work.out), self.work.planned.trial
        path = store.checkpoint(trial.id)
        if trained := store.read_trained(trial.id):
            try:
                safetensors.torch.load_model(self.model, path)
            except (safetensors.SafetensorError, RuntimeError, OSError):
                self._build(registry)  # a damaged file may have been loaded in part; train again
            else:
                self.trained = trained
                return
        # whether the initial stage was measured must not change what training draws
        _seed_everything("training", trial.seed)
        with blame(trial.model, f"training on {trial.task.label!r}"):
            outcome = train(
                self.model, self.task, trial.training, trial.seed, torch.device(trial.device), self.progress
            )
        if trial.training.steps != 0:
            with replaced(path) as temporary:
                try:
                    safetensors.torch.save_model(self.model, str(temporary))
                except safetensors.SafetensorError as error:
                    raise OSError(str(error)) from error
            store.write_trained(trial.id, outcome.trained, outcome.learning_curve)
        self.trained = outcome.trained

    def _stage(self, stage: Stage, registry: Registry) -> Iterator[Record]:
        cells = [cell for cell in self.work.planned.cells if cell.stage == stage]
        if not cells:
            return
        subject = self._subject(stage)
        before = _fingerprint(self.model)
        for cell in cells:
            self.model.zero_grad(set_to_none=True)
            self.model.eval()
            started, changed = time.perf_counter(), set[str]()
            try:
                if reason := self._unmet(cell, registry, subject):
                    raise Skip(reason)
                with blame(cell.probe, f"measuring {cell.trial.model.label!r} on {cell.trial.task.label!r}"):
                    try:
                        measurements = self._measure(cell, subject, registry)
                    finally:
                        changed = _changed(before, self.model)
                    if changed:
                        names = ", ".join(sorted(changed)[:3])
                        raise RuntimeError(f"it changed the model ({names}); measure a copy.deepcopy of it instead")
            except Skip as skip:
                record = self._write(cell, "skipped", reason=str(skip), seconds=time.perf_counter() - started)
            except Exception as error:
                record = self._write(cell, "failed", error=failure(error), seconds=time.perf_counter() - started)
            else:
                seconds = time.perf_counter() - started
                record = self._write(cell, "ok", measurements=measurements, seconds=seconds)
            yield record
            if changed:
                self._build(registry)  # as it was constructed; what was trained comes back from its checkpoint
                if stage == "trained" and not cell.trial.pretrained:
                    self._train(registry)
                subject = self._subject(stage)

    def _measure(self, cell: Cell, subject: Subject, registry: Registry) -> list[Scalar | Curve | Matrix]:
        target = _planned(registry, "probe", cell.probe)
        # by what is asked, and not by the model: sham positions and swaps are the same for all models
        subject.generator = seeded("probe", cell.probe.label, cell.trial.task.label, cell.trial.seed, cell.stage)
        if isinstance(target.code, type):
            result = target.build(cell.probe.arguments)(subject)
        else:
            result = target.build(cell.probe.arguments, subject=subject)
        measurements = list(result)
        for measurement in measurements:
            if not isinstance(measurement, Scalar | Curve | Matrix):
                raise TypeError(f"it gave {measurement!r:.60}; a probe yields Scalar, Curve or Matrix")
        measurements = [type(each).model_validate(each.model_dump(warnings=False)) for each in measurements]
        names = [measurement.name for measurement in measurements]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"it gave {', '.join(sorted(twice))} twice; names of measurements are unique")
        return measurements

    def _unmet(self, cell: Cell, registry: Registry, subject: Subject | None = None) -> str:
        """Why the probe cannot look at this model and task, or ""."""
        needs = getattr(load_use(registry, "probe", cell.probe).code, "needs", ())
        return unmet(needs, subject or self._subject(cell.stage))

    def _pointless(self, cell: Cell, registry: Registry) -> bool:
        """Whether the cell needs no trained model, since it will be skipped or its probe is broken."""
        try:
            return bool(self._unmet(cell, registry))
        except PluginError:
            return True

    def _fail(self, cells: list[Cell], error: Failure) -> Iterator[Record]:
        for cell in cells:
            yield self._write(cell, "failed", error=error)

    def _write(
        self, cell: Cell, status: Literal["ok", "skipped", "failed"], seconds: float = 0.0, **outcome: Any
    ) -> Record:
        trial = cell.trial
        trained = self.trained if cell.stage == "trained" else None
        record = Record(
            id=cell.id,
            trial=trial.id,
            status=status,
            model=ModelUse(**trial.model.model_dump(), parameters=self.parameters),
            task=trial.task,
            probe=cell.probe,
            training=trial.training,
            trained=trained,
            pretrained=trial.pretrained,
            stage=cell.stage,
            seed=trial.seed,
            examples=cell.examples,
            device=trial.device,
            data=self.data,
            notes=self.notes,
            timing=Timing(train=trained.seconds if trained else None, probe=seconds),
            provenance=provenance(trial.device, self.work.threads, self.work.revision, self.work.dirty),
            **outcome,
        )
        RunDirectory(self.work.out).write_record(record)
        return record


def failed_records(work: Work, cells: list[Cell], error: Failure) -> list[Record]:
    """Write `failed` for cells whose process died."""
    return list(_Run(work, lambda share: None)._fail(cells, error))


def _planned(registry: Registry, kind: str, use: PluginUse) -> Target:
    """The plugin's code, if it is still what the plan was made for."""
    target = load_use(registry, kind, use)
    if target.resolve(Request(name=use.name, arguments=use.arguments)).digest != use.digest:
        raise PluginError(
            f"{kind} {use.label!r} ({use.target}) has changed since this run was planned; run it again "
            "(in a notebook, restart the kernel)"
        )
    return target


def _fingerprint(model: nn.Module) -> dict[str, int]:
    """A checksum of each parameter and buffer: a copy would take the memory of a second model."""
    tensors = model.state_dict().items()
    return {name: zlib.crc32(each.cpu().contiguous().unsqueeze(-1).view(torch.uint8).numpy()) for name, each in tensors}


def _changed(before: dict[str, int], model: nn.Module) -> set[str]:
    """The names of parameters and buffers that are not what they were."""
    return {name for name, _ in before.items() ^ _fingerprint(model).items()}


def _data_digest(subject: Subject) -> str:
    digest = hashlib.sha256()
    for condition in subject.task.conditions():
        digest.update(subject.batch(condition).tokens.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
