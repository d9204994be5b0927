"""What a user asks for: requests (`gpt:position=none,layers=4`), suites and the claims they test."""

import math
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from harness.errors import RequestError
from harness.grids import MOST_TRIALS, Default, Grid, clashing
from harness.measurements import Strict
from harness.schema import Count, Finite, Number, Training, unknown_setting
from harness.vocabulary import Stage
from harness.written import (
    ALIAS,
    DEEPEST,
    deeper,
    format_arguments,
    parse_request,
    read_none,
)

Operator = Literal[">", ">=", "<", "<="]

WHOM = ("every", "median", "best", "worst", "some")
"""The words for the seeds that a claim may speak of."""


def _alias(word: str) -> str:
    if word and not re.fullmatch(ALIAS, word):
        raise ValueError("an alias is a word of letters, digits and . _ + -, with a letter or digit first")
    return word


class Request(Strict):
    """A plugin by name, with the arguments that should differ from its defaults, and perhaps an alias.

    Written `name`, `name:key=value,key=value` or, in TOML, as a table `{name = "gpt", layers = 4}`. The name may be
    qualified by its distribution (`acme:gru`), or point at code (`./gru.py:GRU`, `package.module:GRU`). With an alias:
    `small=gpt:layers=2`, or `{name = "gpt", layers = 2, alias = "small"}`.
    """

    name: str
    arguments: dict[str, Any] = {}
    alias: Annotated[str, AfterValidator(_alias)] = ""
    """What tables, claims and filters call it; it decides nothing that is measured."""

    @model_validator(mode="before")
    @classmethod
    def _from_text_or_table(cls, value: Any) -> Any:
        if isinstance(value, str):
            return parse_request(value)
        if isinstance(value, dict) and "name" in value:
            if value.get("alias") == "" and "arguments" not in value:  # with them, it is what a request was written as
                raise ValueError("the alias is empty; give a word, or leave it out")
            if "arguments" in value:
                return value
            own = {key: value[key] for key in ("name", "alias") if key in value}
            return own | {"arguments": {k: v for k, v in value.items() if k not in own}}
        if isinstance(value, Request):
            return value
        raise ValueError("name a plugin: 'gpt:layers=4', {name = 'gpt', layers = 4} or './file.py:Model'")

    @model_validator(mode="after")
    def _no_alias_among_arguments(self) -> "Request":
        if deeper(self.arguments, DEEPEST):
            raise RequestError(f"the arguments of {self.name!r} are nested more than {DEEPEST} deep; make them flatter")
        if "alias" in self.arguments:
            raise RequestError(f"no plugin has an argument 'alias'; for an alias, write for example small={self.name}")
        return self

    @property
    def bare(self) -> "Request":
        """Without its alias."""
        return self.model_copy(update={"alias": ""})

    def __str__(self) -> str:
        text = f"{self.name}:{format_arguments(self.arguments)}" if self.arguments else self.name
        return f"{self.alias}={text}" if self.alias else text


class Selection(Strict):
    """Which number of which records: one number per seed."""

    model: Request | None = None
    """The model as the suite names it; None matches the only one there is, beside baselines."""
    task: Request | None = None
    """The task as the suite names it."""
    probe: Request
    """The probe that measured it."""
    stage: Stage = "trained"
    """When it was measured."""
    training: dict[str, Any] = {}
    """Training settings of the model, where the suite trains it in several ways, for example `{lr = 1e-3}`."""
    best: bool = False
    """Of several ways of training, or variants of a grid, the one with the lowest median validation loss."""
    metric: str = Field(min_length=1)
    """Name of the measurement."""
    at: float | str | list[float] | list[str] | None = None
    """For a curve: the x to read, a list of them, or `inside` / `beyond` the trained range; None for all.
    For a matrix: the column."""
    row: str | list[str] | None = None
    """For a matrix: the row, or a list of them; None for all."""
    relative_to: float | str | None = None
    """For a curve: divide by the value at this x."""
    reduce: Literal["min", "max", "mean", "range"] | None = None
    """How several values become one number; needed where there are several."""

    @field_validator("training")
    @classmethod
    def _settings(cls, training: dict[str, Any]) -> dict[str, Any]:
        for name in training:
            if name not in Training.model_fields:
                raise ValueError(unknown_setting(name))
        return training

    @model_validator(mode="after")
    def _leads_to_one_number(self) -> "Selection":
        if self.row is not None and self.relative_to is not None:
            raise ValueError("`row` is for a matrix and `relative_to` for a curve; leave one out")
        for name in ("at", "row", "relative_to"):
            value = getattr(self, name)
            places = value if isinstance(value, list) else [value]
            if not places or any(place != place for place in places):  # NaN differs from itself
                raise ValueError(f"`{name}` = {value} is no place; name one, or leave it out for all")
            if len(places) > 1 and self.reduce is None:
                raise ValueError(f"`{name}` gives {len(places)} numbers; say with `reduce` how they become one")
        return self


def _whom(value: Any) -> Any:
    share = isinstance(value, float) and 0 < value < 1
    if value not in WHOM and not share:
        words = ", ".join(map(repr, WHOM))
        raise ValueError(f"should be {words}, or the share of the seeds that must satisfy the claim, like 0.6")
    return value


def _tolerance(value: Any) -> Any:
    if value is None:
        return value
    text = value.strip().removesuffix("%") if isinstance(value, str) else "" if isinstance(value, bool) else str(value)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf or (isinstance(value, str) and "%" not in value):
        raise ValueError('should be a number like 0.01, or a share of what it is compared with, like "5 %"')
    return f"{number:g} %" if isinstance(value, str) and "%" in value else number


class Claim(Selection):
    """A published or suspected finding, as a comparison that records can decide.

    It compares the selected number of every seed with `value`, or with another selection (`than`, which takes from the
    claim whatever it does not say itself). The number must stand to it as `comparison` says, or be equal `within` a
    tolerance.
    """

    text: str
    """The claim in words, for the report."""
    source: str = ""
    """Where it was made."""
    comparison: Operator | None = None
    """How the number must stand to the value; or use `within`."""
    within: Annotated[float | str | None, BeforeValidator(_tolerance)] = None
    """How far the number may at most be from the value: 0.01, or `"5 %"` of the value; 0 for exactly equal."""
    value: Number | None = None
    """The value to compare with, perhaps infinity; or use `than`."""
    than: dict[str, Any] | None = None
    """Fields of another selection to compare with, seed by seed; `none` unsets one."""
    factor: Finite = 1.0
    """Multiplies the other selection's number before it is compared."""
    margin: Finite = Field(default=0.0, ge=0)
    """Numbers closer to the value than this decide nothing (for example the sampling error of an accuracy)."""
    seeds: Annotated[Literal["every", "median", "best", "worst", "some"] | float, BeforeValidator(_whom)] = "every"
    """Of what the claim speaks: every seed (one clear counterexample refutes it), some seed (one clear example is
    enough), the median seed, the best or worst one by the direction of the comparison, or at least this share of the
    seeds, for example 0.6."""
    quantile: Annotated[Finite, Field(gt=0, lt=1)] | None = None
    """Instead of `seeds`: the quantile over seeds of which the claim speaks, for example 0.1 for what a tenth of them
    stays below."""

    @model_validator(mode="after")
    def _one_reference(self) -> "Claim":
        if (self.value is None) == (self.than is None):
            raise ValueError("give either `value` or `than` to compare with")
        if self.value is not None and math.isnan(self.value):
            raise ValueError("`value` is NaN, and nothing is above or below that; give a number")
        if (self.comparison is None) == (self.within is None):
            raise ValueError("give either `comparison` (how it stands to the value) or `within` (how near it is to it)")
        if self.within is not None and self.margin:
            raise ValueError("`within` says itself which numbers are equal; leave `margin` out")
        if self.share_of_value and (self.value == 0 or self.value in (math.inf, -math.inf)):
            raise ValueError(f"`within` is a share of `value`, which is {self.value:g}; give a number instead")
        if self.quantile is not None and self.seeds != "every":
            raise ValueError("`seeds` and `quantile` both say of what the claim speaks; leave one out")
        if self.factor == 0 or (self.than is None and self.factor != 1):
            raise ValueError("`factor` multiplies the number of `than`: give both, and a factor that is not 0")
        if self.other() == Selection.model_validate(self._selected()):
            raise ValueError("`than` selects what the claim itself does; say in which field they differ")
        return self

    @property
    def share_of_value(self) -> bool:
        """Whether `within` is a share of what the number is compared with."""
        return isinstance(self.within, str)

    @property
    def tolerance(self) -> float:
        """`within` as a number: in the unit of the value, or a share of it."""
        return float(self.within.removesuffix(" %")) / 100 if isinstance(self.within, str) else self.within or 0.0

    def other(self) -> Selection | None:
        """The selection to compare with, if the claim compares two."""
        if self.than is None:
            return None
        own = self._selected() | self.than
        return Selection.model_validate({key: read_none(value) for key, value in own.items()})

    def _selected(self) -> dict[str, Any]:
        return self.model_dump(include=set(Selection.model_fields), exclude_none=True)


Ways = dict[str, Any] | Annotated[list[dict[str, Any]], Field(min_length=1)]
"""Training settings, or a list of them: as many ways of training."""


def as_list(training: Ways) -> list[dict[str, Any]]:
    """The ways of training, also if there is one."""
    return [training] if isinstance(training, dict) else list(training)


class Experiment(Strict):
    """One cross: every model on every task, measured by every probe, for every seed."""

    models: list[Request] = Field(min_length=1)
    tasks: list[Request] = Field(default=[Request(name="recall")], min_length=1)
    probes: list[Request] = Field(default=[Request(name="accuracy")], min_length=1)
    training: Ways = {}
    """Training settings of this experiment, which win over the suite's and the plugins' own; a list of them is crossed
    with everything else."""
    stages: Annotated[list[Stage], Field(min_length=1)] | None = None
    """Only these stages; None: whatever each probe looks at."""
    seeds: Count | None = Field(default=None, ge=1)
    """Seeds 0 to seeds - 1 in this experiment; None: as many as in the suite."""

    def meant_by(self, selection: Selection) -> bool:
        """Whether a selection names, in the experiment's own words, what is crossed here."""
        named = ((selection.model, self.models), (selection.task, self.tasks), (selection.probe, self.probes))
        return all(asked is None or any(_same_request(asked, each) for each in known) for asked, known in named)


def _same_request(asked: Request, known: Request) -> bool:
    by_alias = asked.name == known.alias and not asked.arguments
    return by_alias or (asked.name, asked.arguments) == (known.name, known.arguments)


def _folder(name: str) -> str:
    if not re.fullmatch(r"\w[\w.+-]{0,99}", name):
        raise ValueError(
            "the name becomes a folder: at most 100 letters, digits and . _ + -, with a letter or digit first"
        )
    return name


Limit = Annotated[Number, Field(gt=0)] | None
"""What a trial may use; infinity is none, like None. It decides whether there is a result, and not which: it is part of
no id."""


class Suite(Strict):
    """Experiments that belong together, and the claims they test."""

    name: Annotated[str, AfterValidator(_folder)] = "run"
    """What reports and the folder of its records are called; a file's own name if not said."""
    summary: str = ""
    seeds: Count = Field(default=3, ge=1)
    """Seeds 0 to seeds - 1."""
    examples: Count = Field(default=512, ge=1)
    """Evaluation examples per condition."""
    training: dict[str, Any] = {}
    """Training settings for all experiments; they win over what the plugins recommend."""
    baselines: bool = False
    """Whether all models that are baselines (`uniform`, `bag`, `ngram`, `window_mlp`, those of plugins) face the tasks,
    too. They are trained as `training`, the tasks and they themselves say; tables mark them, claims without a model do
    not mean them."""
    grid: Grid = {}
    """Lists of values by the name of a training setting or a model argument, crossed with everything else; an argument
    varies the models that have it."""
    success: Finite | None = None
    """The worst score in the trained range from which on a seed counts as a success of its cell of the grid; None: 90 %
    of the way from chance to perfect, or 0.9 of a share whose chance is not known."""
    max_trials: Count = Field(default=MOST_TRIALS, ge=1)
    """With a grid, more trials than this are refused."""
    beside: list[Request] = []
    """Models that a user puts beside those of the suite, in each of its experiments; reports mark them."""
    defaults: list[Default] = []
    """What the settings that the grid varies would be without it; a plan fills it in."""
    planned: list[str] = []
    """The ids of all cells, also of those that other shards run or that a budget leaves out; a plan fills it in."""
    timeout: Limit = None
    """Seconds that a trial may take; what is not measured by then fails."""
    retries: Count = Field(default=0, ge=0)
    """New attempts for a trial whose process died."""
    memory: Limit = None
    """GiB of main memory for each process of a trial."""
    experiments: list[Experiment] = Field(min_length=1)
    claims: list[Claim] = []

    @model_validator(mode="after")
    def _grid_alone(self) -> "Suite":
        own = [way for each in self.experiments for way in as_list(each.training)]
        if name := clashing(self.grid, [self.training, *own]):
            raise ValueError(f"`grid` and `training` both set {name}; keep one")
        return self

    def seeds_of(self, experiment: Experiment) -> int:
        """How many seeds an experiment has."""
        return self.seeds if experiment.seeds is None else experiment.seeds

    def seeds_for(self, selection: Selection) -> int:
        """How many seeds the numbers of a selection come from."""
        found = [self.seeds_of(experiment) for experiment in self.experiments if experiment.meant_by(selection)]
        return max(found, default=self.seeds)

    def requests(self, kind: str) -> list[Request]:
        """All requests for plugins of a kind, in the order of the experiments."""
        return [request for experiment in self.experiments for request in getattr(experiment, f"{kind}s")]
