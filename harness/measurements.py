"""What probes give: the kinds of measurement, each of which knows its numbers and what they lie along."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetPydanticSchema, WithJsonSchema, model_validator
from pydantic_core import CoreSchema, PydanticSerializationError, core_schema

LONGEST_TEXT = 20_000
"""Characters of one text in a record; of a longer one the middle is left out."""

TIMES = ("s", "ms", "us", "ns")
"""Units of time."""

SIZES = ("MiB", "GiB", "KiB", "bytes", "B")
"""Units of memory."""


def _mended(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    text = str.encode(text, "utf-8", "backslashreplace").decode()
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2 - 50
    return f"{text[:half]} [... {len(text) - 2 * half:,} characters left out ...] {text[-half:]}"


def _fine_or_mended(_: Any, read: Any) -> CoreSchema:
    """Text that pydantic's core accepts as it is costs no call into Python."""
    fine = core_schema.str_schema(max_length=LONGEST_TEXT)
    mended = core_schema.no_info_before_validator_function(_mended, core_schema.str_schema())
    return core_schema.union_schema([fine, mended], mode="left_to_right", custom_error_type="string_type")


Text = Annotated[str, GetPydanticSchema(_fine_or_mended), WithJsonSchema({"type": "string"})]
"""What plugins say, made fit to be written: a lone surrogate (half a character) becomes its code, and a text of more
than `LONGEST_TEXT` characters loses its middle."""

Places = Annotated[Sequence[float] | Sequence[str], GetPydanticSchema(lambda _, read: read(list[float] | list[Text]))]
"""A list, once read. A sequence for type checkers, to which a list of whole numbers is no list of floats."""


class Strict(BaseModel):
    """Base of everything we write: unknown fields are an error, instances do not change."""

    def as_json(self, indent: int | None = 1) -> bytes:
        """Its JSON, as files keep it. Arguments may be any text; a lone surrogate (half a character), which UTF-8
        cannot hold, becomes a question mark."""
        try:
            return self.model_dump_json(indent=indent).encode()
        except PydanticSerializationError:
            text = json.dumps(self.model_dump(mode="json"), ensure_ascii=False, indent=indent)
            return text.encode("utf-8", "replace")

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        ser_json_inf_nan="strings",
        protected_namespaces=(),
        use_attribute_docstrings=True,
    )


def _known(errors: Any) -> Any:
    """The errors, or None if all of them are NaN: a record with NaN would not equal itself."""
    numbers = errors if isinstance(errors, list) else [errors]
    return errors if any(number is not None and not math.isnan(number) for number in numbers) else None


def format_place(x: float | str) -> str:
    """A place on an axis, as people write it."""
    return x if isinstance(x, str) else f"{x:g}"


class Point(NamedTuple):
    """One number of a measurement, with its place and what else is known of it; the fields are columns of CSV."""

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
    """What all kinds of measurement have in common, so that callers need not ask which kind one is."""

    called: ClassVar[str]
    """The kind in words."""

    @abstractmethod
    def points(self) -> Iterator[Point]:
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
    name: Text
    """What was measured, for example `per_step_factor`."""
    unit: Text
    """Unit of the value: `share`, `nats`, `bits`, `tokens`, `ratio`, ... ("" for a pure number)."""
    value: float
    """The number; NaN where it is not defined."""
    verdict: Text | None = None
    """What the number means in words, where the probe draws a conclusion, for example `never learned`."""
    meaning: Text | None = None
    """What those words mean, with their thresholds, as reports explain them (see `harness.statistics.MEANINGS`)."""
    about: Text = ""
    """What the number is, in a phrase, where its name does not tell; reports explain it under its name."""
    standard_error: Annotated[float | None, AfterValidator(_known)] = None
    """Of the value, from the examples of this seed; None where it is not known."""
    levels: dict[str, float] = {}
    """Values to compare it with, as those of a curve: where the number is one of a task's scores."""
    headline: bool = False
    """Whether summary tables show it."""

    def points(self) -> Iterator[Point]:
        yield Point(self.value, self.standard_error, verdict=self.verdict)


class Curve(Measured):
    """Numbers along an axis."""

    called: ClassVar = "a curve"
    kind: Literal["curve"] = "curve"
    name: Text
    """What was measured, for example `accuracy`."""
    unit: Text
    """Unit of `y`."""
    x: Places
    """Places on the axis: numbers, or names of categories."""
    y: list[float]
    """The values, one for each `x`; NaN where not measured."""
    x_label: Text
    """What `x` is, with its unit."""
    y_label: Text
    """What `y` is."""
    inside: list[bool] | None = None
    """For each `x`, whether training covered it (None where that question has no meaning)."""
    standard_errors: Annotated[list[float] | None, AfterValidator(_known)] = None
    """For each `x` the standard error of `y`, from the examples of this seed; NaN where it is not known, None where it
    is known nowhere."""
    scale: Literal["linear", "log"] = "linear"
    """How to draw `y`."""
    levels: dict[str, float] = {}
    """Values of `y` to compare with, by what they are called, for example `{"chance": 0.125}`."""
    headline: bool = False
    """Whether summary tables show it."""

    @model_validator(mode="after")
    def _same_length(self) -> "Curve":
        own = {"y; give one y for each x": self.y, "inside flags": self.inside, "standard errors": self.standard_errors}
        for what, given in own.items():
            if given is not None and len(given) != len(self.x):
                raise ValueError(f"curve {self.name!r} has {len(self.x)} x and {len(given)} {what}")
        return self

    def points(self) -> Iterator[Point]:
        places: Sequence[float | str] = self.x
        errors: Sequence[float | None] = self.standard_errors or [None] * len(self.x)
        flags: Sequence[bool | None] = self.inside or [None] * len(self.x)
        for x, y, error, inside in zip(places, self.y, errors, flags, strict=True):
            yield Point(y, error, x=x, inside=inside)

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
    name: Text
    """What was measured, for example `attention_share`."""
    unit: Text
    """Unit of the values."""
    values: list[list[float]]
    """Row by row; NaN where not measured."""
    rows: list[Text]
    """Label of each row."""
    columns: list[Text]
    """Label of each column."""
    row_label: Text
    """What the rows are, for example `layer and head`."""
    column_label: Text
    """What the columns are."""
    about: Text = ""
    """What the table shows, in a phrase, for its title; "" for what the rows and columns are."""
    meaning: Text = ""
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

    def points(self) -> Iterator[Point]:
        for row, values in zip(self.rows, self.values, strict=True):
            for column, value in zip(self.columns, values, strict=True):
                yield Point(value, row=row, column=column)

    def axes(self) -> dict[str, Axis]:
        return {"row": Axis("rows", self.rows), "at": Axis("columns", self.columns)}

    def unlabelled(self) -> str:
        named = (self.row_label + self.column_label).strip()
        return "" if named else f"the matrix {self.name!r} says neither what its rows nor what its columns are"


class Pattern(Measured):
    """Where every token of one example looks, in every head: for people to look at, and not for statistics."""

    called: ClassVar = "an attention pattern"
    kind: Literal["pattern"] = "pattern"
    name: str
    """What was seen, for example `pattern`."""
    tokens: list[str]
    """The tokens of the example, by names that people can read."""
    heads: list[str]
    """The name of each head."""
    weights: list[list[list[float]]]
    """By head and query the weights of the keys, the first key first; keys after the last one listed have none."""
    cue: int | None = None
    """The position of the cue, counted from 0."""
    query: int | None = None
    """The position of the query."""
    unit: Literal["share"] = "share"
    headline: Literal[False] = False

    @model_validator(mode="after")
    def _complete(self) -> "Pattern":
        shape = (len(self.heads), len(self.tokens))
        if len(self.weights) != shape[0] or any(len(rows) != shape[1] for rows in self.weights):
            raise ValueError(
                f"pattern {self.name!r} has {shape[0]} heads and {shape[1]} tokens, but its weights are of "
                f"{len(self.weights)} heads with {[len(rows) for rows in self.weights]} queries"
            )
        if any(len(row) > shape[1] for rows in self.weights for row in rows):
            raise ValueError(f"pattern {self.name!r} has {shape[1]} tokens, and a query with weights for more")
        if any(at is not None and not 0 <= at < shape[1] for at in (self.cue, self.query)):
            raise ValueError(f"pattern {self.name!r} has {shape[1]} tokens, and a cue or query at another place")
        return self

    def at_query(self) -> Matrix:
        """The weights at the query (at the last token where there is none), by head and key."""
        at = len(self.tokens) - 1 if self.query is None else self.query
        rows = [rows[at] if rows else [] for rows in self.weights]
        return Matrix(
            name=self.name,
            unit=self.unit,
            values=[[*row, *[0.0] * (len(self.tokens) - len(row))] for row in rows],
            rows=self.heads,
            columns=[f"{key + 1} {token}" for key, token in enumerate(self.tokens)],
            row_label="attention at the query",
            column_label="token looked at",
            about="where the query of one example looks",
        )

    def points(self) -> Iterator[Point]:
        """Those at the query."""
        return self.at_query().points()

    def axes(self) -> dict[str, Axis]:
        return self.at_query().axes()

    def unlabelled(self) -> str:
        return "" if self.tokens else f"the pattern {self.name!r} has no tokens"


Measurement = Annotated[Scalar | Curve | Matrix | Pattern, Field(discriminator="kind")]
"""Every kind; what is here can be yielded by probes, and read from records."""
MEASUREMENTS: tuple[type[Measured], ...] = get_args(get_args(Measurement)[0])
KIND_NAMES = "{} or {}".format(", ".join(kind.__name__ for kind in MEASUREMENTS[:-1]), MEASUREMENTS[-1].__name__)
"""The names of all kinds, as a sentence says them."""
