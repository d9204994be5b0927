"""From a trial to its records: build, measure, train once, measure again, write each record as soon as it is known."""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import safetensors
import torch
from torch import Tensor, nn

from harness import checkpoints
from harness.batches import Batch
from harness.blame import accused, blame, failure
from harness.build import TrialPlugins
from harness.contracts import Condition, Skip, Task
from harness.errors import PluginError, StoreError, said
from harness.files import replacing
from harness.fingerprints import Fingerprint
from harness.fitting import fit
from harness.inventory import CannotGoOnError
from harness.isolation import one_trial, seed_everything
from harness.needs import unfair
from harness.offers import OffersAttention
from harness.partial import Keeper, Partial
from harness.preflight import inspect, magnitude, rounding
from harness.probing import measure, unmet_need
from harness.provenance import provenance
from harness.recurrence import states_of
from harness.registry import default_registry
from harness.schema import Cell, Failure, ModelUse, Record, Timing, Trained, Training
from harness.settings import in_force
from harness.store import RunDirectory
from harness.subject import Shared, Subject
from harness.traces import listed, moment
from harness.training import Outcome, budget_share, train
from harness.vocabulary import Stage, Status
from harness.work import Work


def run_trial(
    work: Work,
    progress: Callable[[float], None] = lambda share: None,
    begins: Callable[[Cell], None] = lambda cell: None,
) -> Iterator[Record]:
    """Run a trial's cells; every record is on disk before it is yielded. Whatever a plugin does, each cell gets one.

    Args:
        work: the trial.
        progress: called now and then during training, with the share of the trial that is done, 0 to 1.
        begins: called with each cell before its probe looks.

    Raises:
        StoreError: the run directory can no longer be written.
    """
    run, written = _Run(work, progress, begins), set()
    try:
        with one_trial(torch.device(work.planned.trial.device), work.threads):
            run.settings = in_force()
            for record in run.records():
                written.add(record.id)
                yield record
    except (StoreError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # the device itself failed, for example
        yield from run._fail([cell for cell in work.planned.cells if cell.id not in written], failure(error))


@dataclass
class _Run:
    """One trial on its way; what is known so far goes into each record."""

    work: Work
    progress: Callable[[float], None]
    begins: Callable[[Cell], None] = lambda cell: None
    parameters: int | None = None
    trained: Trained | None = None
    data: str = ""
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    batches: dict[Condition, Batch] = field(default_factory=dict)
    restless: set[str] = field(default_factory=set)
    """What model and task change themselves while they are used."""
    plugins: TrialPlugins = field(init=False)
    cells: list[Cell] = field(init=False)
    """Those that can be measured."""
    task: Task = field(init=False)
    model: nn.Module = field(init=False)
    recommended: Training = field(init=False)

    def records(self) -> Iterator[Record]:
        planned = self.work.planned
        if planned.broken:
            yield from self._fail(planned.cells, planned.broken)
            return
        self.cells = [cell for cell in planned.cells if cell.id not in planned.unmeasurable]
        for cell in planned.cells:
            if cell.id in planned.unmeasurable:
                yield from self._fail([cell], planned.unmeasurable[cell.id])
        if not self.cells:
            return
        try:
            registry = default_registry()
            registry.notify("harness_trial_started", trial=planned.trial)
            self.plugins = TrialPlugins(registry, planned.trial)
            self._build()
            if reason := unfair(self._subject("initial")):
                raise Skip(reason)
            self._inspect()
            cells = [cell for cell in self.cells if cell.stage == "trained"]
            # where all cells will be skipped, or their probes are broken, no training is needed to say so
            needed = not planned.trial.pretrained and not all(self._pointless(cell) for cell in cells)
        except Skip as skip:
            for cell in self.cells:
                yield self._write(cell, "skipped", reason=said(skip))
            return
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            yield from self._fail(self.cells, failure(error))
            return
        yield from self._stage("initial")
        try:
            if needed:
                self._anew("trained")
        except Skip as skip:
            for cell in cells:
                yield self._write(cell, "skipped", reason=said(skip))
            return
        except (StoreError, KeyboardInterrupt):
            raise
        except BaseException as error:
            yield from self._fail(cells, failure(error))
            return
        yield from self._stage("trained")

    def _anew(self, stage: Stage) -> None:
        """Task and model as they are at a stage, and as no probe has seen them. Training always begins like that, so
        that it does not depend on whether somebody looked before, and cannot depend on what they did."""
        del self.model, self.task  # there may be memory for one
        self._build()
        if stage == "trained" and not self.work.planned.trial.pretrained:
            self._train()

    def _build(self) -> None:
        self.task = self.plugins.build_task()
        self.notes = [str(note) for note in self.task.notes]
        self.model = self.plugins.build_model(self.task.interface)
        self.recommended = self.plugins.recommended_training
        self._check_forward(self._subject("initial"))
        self.parameters = sum(parameter.numel() for parameter in self.model.parameters())  # lazy ones have sizes now

    def _check_forward(self, subject: Subject) -> None:
        """The first forward pass, so that a wrong shape is named before anything is trained; at a length that training
        covers, if there is one: beyond, NaN is a result."""
        trial, interface = self.work.planned.trial, self.task.interface
        with blame(trial.task, "making evaluation data"):
            condition = min(self.task.conditions(), key=lambda condition: not condition.inside)
            batch = subject.batch(condition)[:2]
            self.data = self.data or _data_digest(subject)
        tokens = batch.tokens.clone()
        with blame(trial.model, "computing its first outputs"):
            with torch.no_grad():
                outputs = self.model(batch.tokens)
            expected = (*batch.tokens.shape[:2], interface.output_size)
            if not isinstance(outputs, torch.Tensor) or outputs.shape != expected:
                received = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
                raise ValueError(f"it returned {received} where (batch, time, outputs) = {expected} is expected")
            if condition.inside and not torch.isfinite(outputs).all():
                raise ValueError("its outputs are not finite (NaN or infinity) before any training")
            if not torch.equal(batch.tokens, tokens):
                raise ValueError("it writes into its input, which others need; let it begin with tokens.clone()")

    def _inspect(self) -> None:
        """Warn of a model that is no fair subject; never a reason to stop."""
        trial = self.work.planned.trial
        twin = None if trial.pretrained else partial(self.plugins.build_model, self.task.interface, trial.seed + 1)
        with suppress(Exception), blame(trial.model, "being inspected"):
            self.warnings = inspect(self._subject("initial"), twin)

    def _subject(self, stage: Stage, shared: Shared | None = None) -> Subject:
        trial = self.work.planned.trial
        self.model.eval()
        examples = self.work.planned.cells[0].examples
        trained = self.trained if stage == "trained" else None
        return Subject(
            self.model,
            self.task,
            stage=stage,
            seed=trial.seed,
            device=torch.device(trial.device),
            examples=examples,
            shared=shared or Shared(self.batches),
            trial=trial,
            budget=budget_share(trained, self.recommended, self.task) if trained else 1.0,
        )

    def _train(self) -> None:
        store, trial = RunDirectory(self.work.out), self.work.planned.trial
        path, halfway = store.checkpoint(trial.id), Partial(store.partial(trial.id), trial.id)
        if trained := store.read_trained(trial.id):
            try:
                checkpoints.load(self.model, path)
            except (safetensors.SafetensorError, RuntimeError, OSError):
                self._build()  # a damaged file may have been loaded in part; train again
            else:
                self.trained = trained
                halfway.remove()  # the process may have ended before it did
                return
        try:
            outcome = self._fit(halfway)
        except CannotGoOnError:
            halfway.remove()
            self._build()
            outcome = self._fit(halfway)
        if trial.training.steps != 0:
            with replacing(path) as temporary:
                checkpoints.write(self.model, trial.model, temporary)
                self._as_kept(temporary)  # which nobody else deletes
            store.write_trained(trial.id, outcome.trained, outcome.learning_curve)
        halfway.remove()
        self.trained = outcome.trained

    def _as_kept(self, checkpoint: Path) -> None:
        """From here on the model is the one that its checkpoint gives, as for any probe that is asked for later, in a
        new process. What it has learned must all be in there, or probes would look at different models."""
        try:
            with blame(self.work.planned.trial.model, "being loaded from its checkpoint"):
                learned = self._few_outputs()
                del self.model, self.task  # there may be memory for one
                self._build()
                checkpoints.load(self.model, checkpoint)
                kept = self._few_outputs()
                allowed = rounding(self.model, kept) * magnitude(kept.nan_to_num())
                same = partial(torch.allclose, kept, rtol=0.0, atol=allowed, equal_nan=True)
                if not same(learned) and same(self._few_outputs()):  # and not new ones at each call
                    raise ValueError(
                        "what it learned is not in its parameters and buffers: built again and loaded, it gives other "
                        "outputs (register what it learns with self.register_buffer, as persistent)"
                    )
        except PluginError:
            checkpoint.stat()  # raises where it is gone, as the run directory is: that is not the model's doing
            raise

    def _few_outputs(self) -> Tensor:
        """Of the model as it is; what it draws meanwhile is the same every time."""
        batch = self._subject("trained").batch(min(self.task.conditions(), key=lambda each: not each.inside))[:2]
        seed_everything("checkpoint", self.work.planned.trial.seed)
        with torch.no_grad():
            outputs: Tensor = self.model(batch.tokens.clone())
        return outputs

    def _fit(self, keeper: Keeper) -> Outcome:
        trial = self.work.planned.trial
        # whether the initial stage was measured must not change what training draws
        seed_everything("training", trial.seed)
        with blame(trial.model, f"training on {trial.task.label!r}"):
            device = torch.device(trial.device)
            if self.plugins.model.says.fits:
                return fit(self.model, self.task, trial.training, trial.seed, device, self.progress)
            return train(self.model, self.task, trial.training, trial.seed, device, self.progress, keeper)

    def _stage(self, stage: Stage) -> Iterator[Record]:
        cells = [cell for cell in self.cells if cell.stage == stage]
        scores: dict[Condition, dict[str, Tensor]] = {}
        before: Fingerprint | None = None
        for cell in cells:
            self.begins(cell)
            moment().settings.put_back()  # what whoever takes the records has set meanwhile is not this probe's doing
            seed_everything(f"probe {stage}", cell.trial.seed)
            self.model.zero_grad(set_to_none=True)
            self.model.eval()
            before = before or Fingerprint(self.model, self.task)
            subject = self._subject(stage, Shared(self.batches, scores, partial(self._untouched, before)))
            subject.trial = cell.trial.model_copy(deep=True)  # the probe's own
            started, doing = time.perf_counter(), f"measuring {cell.trial.model.label!r} on {cell.trial.task.label!r}"
            outcome: dict[str, Any]
            try:
                if reason := unmet_need(self.plugins, cell, subject):
                    raise Skip(reason)
                with blame(cell.probe, doing):
                    outcome = {"status": "ok", "measurements": measure(self.plugins, cell, subject)}
            except Skip as skip:
                outcome = {"status": "skipped", "reason": said(skip)}
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                outcome = {"status": "failed", "error": failure(error)}
            seconds = time.perf_counter() - started
            del subject
            try:
                before, spoilt = self._spoilt(before, stage)
            except (StoreError, KeyboardInterrupt):
                raise
            except BaseException as error:  # what the probe has left breaks whatever comes after it
                failed = outcome if outcome["status"] == "failed" else {"status": "failed", "error": failure(error)}
                yield self._write(cell, seconds=seconds, **failed)
                raise
            if spoilt and outcome["status"] != "failed":
                advice = "measure a copy.deepcopy of it, and change copies of the task and of batches"
                changed = RuntimeError(f"it changed the model ({listed(spoilt)}); {advice}")
                outcome = {"status": "failed", "error": failure(accused(cell.probe, doing, changed))}
            yield self._write(cell, seconds=seconds, **outcome)
            if spoilt:
                before = None
                self._anew(stage)

    def _untouched(self, before: Fingerprint) -> bool:
        """Whether a model is, in the middle of a measurement, as it is for all probes."""
        changes = before.changes(Fingerprint(self.model, self.task))
        return self.restless.issuperset(changes) and moment().none

    def _spoilt(self, before: Fingerprint, stage: Stage) -> tuple[Fingerprint | None, list[str]]:
        """What a probe changed of model and task, and not they themselves; and the fingerprint to which the next probe
        is held, if it is another one."""
        changes = before.changes(Fingerprint(self.model, self.task))
        if self.restless.issuperset(changes):
            return before, []
        before.put_back()
        self.restless |= self._changed_by_use(stage)
        return None, [name for name in changes if name not in self.restless]

    def _changed_by_use(self, stage: Stage) -> set[str]:
        """What model and task, both new, change themselves when they do what they are for."""
        self._anew(stage)
        subject, before = self._subject(stage, Shared()), Fingerprint(self.model, self.task)  # in evaluation mode
        with suppress(Exception), blame(self.work.planned.trial.model, "being used"):
            for condition in self.task.conditions():
                few = subject.batch(condition)[:2]
                with suppress(Exception):  # too long for the model
                    self.task.loss(self.model(few.tokens), few)
                    subject.score(few)
                    if isinstance(self.model, OffersAttention):
                        self.model.attention_patterns(few.tokens)
                    states_of(self.model, few.tokens)
        return {*before.changes(Fingerprint(self.model, self.task))}

    def _pointless(self, cell: Cell) -> bool:
        """Whether the cell needs no trained model, since it will be skipped or its probe is broken."""
        try:
            return bool(unmet_need(self.plugins, cell, self._subject(cell.stage)))
        except PluginError:
            return True

    def _fail(self, cells: list[Cell], error: Failure) -> Iterator[Record]:
        for cell in cells:
            yield self._write(cell, "failed", error=error)

    def _write(self, cell: Cell, status: Status, seconds: float = 0.0, **outcome: Any) -> Record:
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
            warnings=self.warnings,
            timing=Timing(train=trained.seconds if trained else None, probe=seconds),
            provenance=provenance(
                trial.device, self.work.threads, self.work.revision, self.work.dirty, self.settings, self.work.started
            ),
            **outcome,
        )
        RunDirectory(self.work.out).write_record(record)
        return record


def failed_records(work: Work, cells: list[Cell], error: Failure) -> list[Record]:
    """Write `failed` for cells whose process died."""
    return list(_Run(work, lambda share: None)._fail(cells, error))


def _data_digest(subject: Subject) -> str:
    digest = hashlib.sha256()
    for condition in subject.task.conditions():
        digest.update(subject.batch(condition).tokens.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
