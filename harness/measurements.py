"""What probes give: the kinds of measurement, each of which knows its numbers and what they lie along."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetPydanticSchema, model_validator

Places = Annotated[Sequence[float] | Sequence[str], GetPydanticSchema(lambda _, read: read(list[float] | list[str]))]
"""A list, once read. A sequence for type checkers, to which a list of whole numbers is no list of floats."""


class Strict(BaseModel):
    """Base of everything we write: unknown fields are an error, instances do not change."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        ser_json_inf_nan="strings",
        protected_namespaces=(),
        use_attribute_docstrings=True,
    )


def _known(errors: Any) -> Any:
    """None instead of nothing but NaN, which would differ from itself."""
    numbers = errors if isinstance(errors, list) else [errors]
    return errors if any(number is not None and not math.isnan(number) for number in numbers) else None


def place(x: float | str) -> str:
    """A place on an axis, as people write it."""
    return x if isinstance(x, str) else f"{x:g}"


class Entry(NamedTuple):
    """One number of a measurement, with its place and what else is known of it, as columns of CSV call that."""

    value: float
    standard_error: float | None = None
    x: float | str | None = None
    row: str | None = None
    column: str | None = None
    verdict: str | None = None
    inside: bool | None = None


class Axis(NamedTuple):
    """Places along which numbers lie, what these are called, and for each perhaps whether training covered it."""

    called: str
    places: Sequence[float | str]
    inside: Sequence[bool] | None = None


class Measured(Strict, ABC):
    """What every kind of measurement tells of itself, so that nobody else need know which it is."""

    called: ClassVar[str]
    """The kind in words."""

    @abstractmethod
    def entries(self) -> Iterator[Entry]:
        """Its numbers; of several axes, the last one runs fastest."""

    def axes(self) -> dict[str, Axis]:
        """What its numbers lie along, by the field of a `harness.suites.Selection` that names places there."""
        return {}

    def unlabelled(self) -> str:
        """What a reader of its table would miss, or ""."""
        return ""


class Scalar(Measured):
    """One number."""

    called: ClassVar = "a single number"
    kind: Literal["scalar"] = "scalar"
    name: str
    """What was measured, for example `per_step_factor`."""
    unit: str
    """Unit of the value: `share`, `nats`, `bits`, `tokens`, `ratio`, ... ("" for a pure number)."""
    value: float
    """The number; NaN where it is not defined."""
    verdict: str | None = None
    """What the number means in words, where the probe draws a conclusion, for example `never learned`."""
    meaning: str | None = None
    """What those words mean, with their thresholds, as reports explain them (see `harness.statistics.MEANINGS`)."""
    about: str = ""
    """What the number is, in a phrase, where its name does not tell; reports explain it under its name."""
    standard_error: Annotated[float | None, AfterValidator(_known)] = None
    """Of the value, from the examples of this seed; None where it is not known."""
    headline: bool = False
    """Whether summary tables show it."""

    def entries(self) -> Iterator[Entry]:
        yield Entry(self.value, self.standard_error, verdict=self.verdict)


class Curve(Measured):
    """Numbers along an axis."""

    called: ClassVar = "a curve"
    kind: Literal["curve"] = "curve"
    name: str
    """What was measured, for example `accuracy`."""
    unit: str
    """Unit of `y`."""
    x: Places
    """Places on the axis: numbers, or names of categories."""
    y: list[float]
    """The values, one for each `x`; NaN where not measured."""
    x_label: str
    """What `x` is, with its unit."""
    y_label: str
    """What `y` is."""
    inside: list[bool] | None = None
    """For each `x`, whether training covered it (None where that question has no meaning)."""
    standard_errors: Annotated[list[float] | None, AfterValidator(_known)] = None
    """For each `x` the standard error of `y`, from the examples of this seed; NaN where it is not known, None where it
    is known nowhere."""
    scale: Literal["linear", "log"] = "linear"
    """How to draw `y`."""
    headline: bool = False
    """Whether summary tables show it."""

    @model_validator(mode="after")
    def _same_length(self) -> "Curve":
        own = {"y; give one y for each x": self.y, "inside flags": self.inside, "standard errors": self.standard_errors}
        for what, given in own.items():
            if given is not None and len(given) != len(self.x):
                raise ValueError(f"curve {self.name!r} has {len(self.x)} x and {len(given)} {what}")
        return self

    def entries(self) -> Iterator[Entry]:
        places: Sequence[float | str] = self.x
        errors: Sequence[float | None] = self.standard_errors or [None] * len(self.x)
        flags: Sequence[bool | None] = self.inside or [None] * len(self.x)
        for x, y, error, inside in zip(places, self.y, errors, flags, strict=True):
            yield Entry(y, error, x=x, inside=inside)

    def axes(self) -> dict[str, Axis]:
        return {"at": Axis("x", self.x, self.inside)}

    def unlabelled(self) -> str:
        if not (self.x_label.strip() and self.y_label.strip()):
            return f"the curve {self.name!r} has an empty x_label or y_label"
        return "" if self.x else f"the curve {self.name!r} has no points"


class Matrix(Measured):
    """Numbers in rows and columns."""

    called: ClassVar = "a matrix"
    kind: Literal["matrix"] = "matrix"
    name: str
    """What was measured, for example `attention_share`."""
    unit: str
    """Unit of the values."""
    values: list[list[float]]
    """Row by row; NaN where not measured."""
    rows: list[str]
    """Label of each row."""
    columns: list[str]
    """Label of each column."""
    row_label: str
    """What the rows are, for example `layer and head`."""
    column_label: str
    """What the columns are."""
    about: str = ""
    """What the table shows, in a phrase, for its title; "" for what the rows and columns are."""
    meaning: str = ""
    """What its columns mean, as reports explain them, where their names do not tell."""
    headline: bool = False
    """Whether summary tables show it."""

    @model_validator(mode="after")
    def _rectangular(self) -> "Matrix":
        shape = (len(self.rows), len(self.columns))
        if len(self.values) != shape[0] or any(len(row) != shape[1] for row in self.values):
            raise ValueError(
                f"matrix {self.name!r} has {shape[0]} row labels and {shape[1]} column labels, but its rows have "
                f"lengths {[len(row) for row in self.values]}"
            )
        return self

    def entries(self) -> Iterator[Entry]:
        for row, values in zip(self.rows, self.values, strict=True):
            for column, value in zip(self.columns, values, strict=True):
                yield Entry(value, row=row, column=column)

    def axes(self) -> dict[str, Axis]:
        return {"row": Axis("rows", self.rows), "at": Axis("columns", self.columns)}

    def unlabelled(self) -> str:
        named = (self.row_label + self.column_label).strip()
        return "" if named else f"the matrix {self.name!r} says neither what its rows nor what its columns are"


Measurement = Annotated[Scalar | Curve | Matrix, Field(discriminator="kind")]
"""Every kind; what is here can be yielded by probes, and read from records."""
KINDS: tuple[type[Measured], ...] = get_args(get_args(Measurement)[0])
ANY = "{} or {}".format(", ".join(kind.__name__ for kind in KINDS[:-1]), KINDS[-1].__name__)
"""The names of all kinds, as a sentence says them."""
