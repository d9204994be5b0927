"""What is asked for and what comes out, as validated models. Every field says what it means and in which unit.

Records are JSON on disk. Infinity and NaN are written as the strings "Infinity", "-Infinity" and "NaN", which any JSON
reader takes, and come back as floats.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from harness.errors import did_you_mean, shown
from harness.measurements import Measurement, Strict, Text
from harness.vocabulary import Stage, Status

SCHEMA_VERSION = 2
"""Written into every record; records of older versions stay readable."""


def _no_flag(value: Any) -> Any:
    """Refuse `true`, which pydantic would take for 1."""
    if isinstance(value, bool):
        raise ValueError("Input should be a number")
    return value


Count = Annotated[int, BeforeValidator(_no_flag), Field(le=10**15)]
"""A whole number that a user writes."""
Number = Annotated[float, BeforeValidator(_no_flag)]
"""A number that a user writes, perhaps infinity."""
Finite = Annotated[Number, Field(allow_inf_nan=False)]


class PluginUse(Strict):
    """A plugin as it was used: enough to find it, to run it again and to see that it has changed."""

    name: str
    """The name in the registry, or the file and class for a plugin without a package."""
    label: str
    """As a user would type it: the name and the arguments that differ from their defaults."""
    alias: str = ""
    """What the user called it; "" for nothing of its own. No part of any id."""
    arguments: dict[str, Any]
    """Every argument, defaults included."""
    distribution: str
    """The installed distribution it comes from; "" for a file."""
    version: str
    """That distribution's version."""
    target: str
    """Where the code is: `package.module:Name`."""
    digest: str
    """Digest of the plugin's source files, and of the files that its arguments name."""
    baseline: bool = False
    """Whether it is a model to compare others with. No part of any id."""

    @property
    def called(self) -> str:
        """The alias, or else the label."""
        return self.alias or self.label

    @property
    def file(self) -> Path | None:
        """The file that was asked for, for a plugin in a file of no package."""
        place = self.target.rpartition(":")[0]
        return Path(place) if place.endswith(".py") and not self.distribution else None


class ModelUse(PluginUse):
    """A model as it was used."""

    parameters: int | None = None
    """Number of parameters (shared ones count once); None where the model could not be built."""


class Training(Strict):
    """How a model is trained; every field can be set with `--training name=value`."""

    optimizer: Literal["adamw", "adam"] = "adamw"
    """Fused `torch.optim` optimiser."""
    lr: Finite = Field(default=1e-3, gt=0)
    """Learning rate after warm-up."""
    weight_decay: Finite = Field(default=0.0, ge=0)
    """Decoupled for adamw, L2 for adam."""
    warmup: Count = Field(default=0, ge=0)
    """Steps over which the learning rate rises linearly from 0."""
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    """What follows: the learning rate stays, or falls to 0 by the end of the budget, by half a cosine or linearly."""
    clip: Finite | None = Field(default=1.0, gt=0)
    """Largest norm of the whole gradient; None for no clipping."""
    truncate: Count | None = Field(default=None, ge=1)
    """Back-propagation through time through at most so many steps: recurrent states are computed as ever, in chunks of
    that length, and no gradient leaves a chunk (Williams and Peng, 1990); None for all steps."""
    steps: Count | None = Field(default=1000, ge=0)
    """Optimiser steps; give this or `epochs`."""
    epochs: Finite | None = Field(default=None, gt=0)
    """Passes over a finite training set, each example once in each; also a fraction of one. Instead of `steps`."""
    batch_size: Count = Field(default=64, ge=1)
    """Sequences per step."""
    validate_every: Count = Field(default=100, ge=1)
    """Steps from one validation to the next; each is a point of the learning curve."""
    patience: Count | None = Field(default=None, ge=1)
    """Early stop after this many validations without a lower loss than before; None for a fixed budget."""

    @model_validator(mode="after")
    def _one_length(self) -> "Training":
        if (self.steps is None) == (self.epochs is None):
            received = "neither" if self.epochs is None else f"steps={self.steps}, epochs={self.epochs:g}"
            raise ValueError(f"give either steps or epochs (set the other one to none); received {received}")
        return self


def unknown_setting(name: object) -> str:
    """What to say of a training setting that there is not."""
    known = Training.model_fields
    guess = did_you_mean(str(name), known)
    return f"there is no training setting {shown(name)}.{guess} Settings: {', '.join(known)}."


AMOUNT = ("steps", "epochs", "batch_size")
"""The training settings that have a meaning for a model that takes no gradient steps (`fit`)."""


class Trained(Strict):
    """How training went."""

    steps: int
    """Optimiser steps taken."""
    stopped: Literal["budget", "early stop"]
    """Why it ended."""
    loss: float
    """Mean training loss of the steps before the last validation, in the task's unit (nats for classes)."""
    validation_loss: float
    """Validation loss at the end."""
    seconds: float
    """Wall time of training."""
    gradient_norm_median: float | None = None
    """Median over the steps of the norm of the whole gradient, before clipping. None where no gradient step was taken,
    and in records from before it was noted; so are the two below."""
    gradient_norm_max: float | None = None
    """The largest of these norms."""
    clipped: float | None = None
    """Share of the steps whose gradient was clipped, 0 to 1; also None where nothing clips."""
    fitted: bool = False
    """Whether the model learnt in its own way (`fit`) and not by gradient steps; `steps` are then the batches that it
    took, and `loss` is that of the first of them."""


class Trial(Strict):
    """Model x task x training x seed, everything resolved; trained once."""

    id: str
    """Content hash of everything that decides the trained model."""
    model: PluginUse
    task: PluginUse
    training: Training
    seed: int = Field(ge=0)
    device: str = "cpu"
    """`cpu` or `cuda`; part of the id, since the numbers differ in the last digits."""
    pretrained: bool = False
    """Whether the model comes with its weights, so that nothing is trained."""


class Cell(Strict):
    """Trial x probe x stage; the unit of resume."""

    id: str
    """Content hash of everything that decides the result; the record's file name."""
    trial: Trial
    probe: PluginUse
    stage: Stage
    examples: int = Field(ge=1)
    """Evaluation examples per condition."""


class Failure(Strict):
    """Why a cell failed."""

    type: Text
    """Class of the exception."""
    message: Text
    """What it said, and where in the plugin."""
    traceback: Text = ""
    """The whole traceback, for the plugin's author."""


class Timing(Strict):
    """Wall time in seconds."""

    train: float | None = None
    """Training of the trial (shared by all its cells); None where nothing was trained."""
    probe: float
    """This cell's own measurement."""


class Provenance(Strict):
    """What produced a record."""

    harness: str
    """Version of the harness."""
    core: str = ""
    """Digest of the harness's own code that decides results, without its messages and docstrings."""
    python: str
    torch: str
    platform: str
    """Operating system and processor."""
    host: str = ""
    """Network name of the machine; "" in records from before it was noted."""
    device: str
    """Processor or accelerator the model ran on, by name."""
    threads: int
    """torch threads in the process."""
    settings: dict[str, str] = {}
    """torch's settings that decide the last digits of results, as they were in the trial, for example `dtype`; empty in
    records from before they were written down, and where the process died."""
    revision: str | None = None
    """git revision of the folder the run was started in, if it is one."""
    dirty: bool | None = None
    """Whether that folder had uncommitted changes."""
    finished: datetime
    """When the cell was done."""
    started: datetime | None = None
    """When its run began, or later: later than any record that was there, whatever the clock says; or so the last run
    that found it again, after others had taken its place. Of records that differ in the sources of their plugins alone,
    those of the last run count."""

    @property
    def order(self) -> tuple[float, float]:
        """Larger for records of later runs, and for later ones of the same run."""
        return _seconds(self.started or self.finished), _seconds(self.finished)


def _seconds(time: datetime) -> float:
    """Of any time, also of the year 1, at which no local clock has been."""
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


class Record(Strict):
    """The outcome of one cell."""

    schema_version: int = SCHEMA_VERSION
    id: str
    """The cell's id; also the file's name."""
    trial: str
    """The trial's id; cells of one trial measured the same trained model."""
    status: Status
    reason: Text | None = None
    """Why it was skipped."""
    error: Failure | None = None
    """Why it failed."""
    model: ModelUse
    task: PluginUse
    probe: PluginUse
    training: Training
    trained: Trained | None = None
    """How training went; None at the initial stage and where nothing was trained."""
    pretrained: bool = False
    """Whether the model came with its weights and was measured as it is, not trained."""
    stage: Stage
    """Whether the model was measured as constructed or after training."""
    seed: int
    examples: int = Field(ge=1)
    """Evaluation examples per condition."""
    device: str = "cpu"
    """`cpu` or `cuda`: numbers of different devices differ in their last digits and are kept apart."""
    measurements: list[Measurement] = []
    data: str = ""
    """Digest of the evaluation data: equal digests, equal sentences."""
    notes: list[Text] = []
    """What the task says about its data, for example which items it cannot use and why."""
    warnings: list[Text] = []
    """What is wrong with the model as a subject of measurement, found by a few forward passes before training, for
    example that it sees the future."""
    timing: Timing
    provenance: Provenance

    @model_validator(mode="after")
    def _explained(self) -> "Record":
        if (self.status == "skipped") != (self.reason is not None) or (self.status == "failed") != (
            self.error is not None
        ):
            raise ValueError(f"a {self.status} record needs a reason exactly if skipped and an error exactly if failed")
        return self

    def find(self, name: str) -> Measurement:
        """The measurement of that name.

        Raises:
            KeyError: naming the measurements there are.
        """
        for measurement in self.measurements:
            if measurement.name == name:
                return measurement
        known = [m.name for m in self.measurements]
        raise KeyError(f"no measurement {name!r}.{did_you_mean(name, known)} There are: {', '.join(known) or 'none'}")
