"""Whatever a plugin says, and however it fails, its record can be written, read and shown."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import SHORT, SMALL
from hypothesis import given
from hypothesis import strategies as st
from record_factory import record as make_record

import harness
from harness.blame import failure
from harness.errors import describe, said
from harness.measurements import LONGEST_TEXT, Curve, Matrix, Measurement, Scalar
from harness.schema import Failure, Record
from harness.store import RunDirectory

ODD = ["half a character \udcff", "\ud83d", "nul \0, bell \a, escape \x1b[31m", "\u2028\ufeff\uffff", "😀 Größe", ""]
TEXTS = st.text(st.characters(), max_size=20) | st.sampled_from(ODD)


def kept(record: Record, folder: Path) -> Record:
    store = RunDirectory(folder)
    store.create()
    store.write_record(record)
    (store.records / f"{record.id}.json").read_text(encoding="utf-8")
    found = store.read_record(record.id)
    assert found is not None
    return found


class HostileError(Exception):
    """`says` is called for its text."""

    def __init__(self, says: Callable[[], Any]) -> None:
        self.says = says

    def __str__(self) -> str:
        return self.says()  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        raise TypeError("it cannot be pickled")


class Stop(BaseException):
    """As some libraries have them."""


class Ideas(str):
    def encode(self, *args: Any, **more: Any) -> bytes:
        raise RuntimeError("no")

    def split(self, *args: Any, **more: Any) -> Any:
        raise RuntimeError("no")

    def __len__(self) -> int:
        raise RuntimeError("no")


def raises(error: BaseException) -> Any:
    raise error


def noted(error: BaseException, note: Any) -> BaseException:
    error.__notes__ = note
    return error


def line_of_syntax(**fields: Any) -> SyntaxError:
    error = SyntaxError("wrong")
    for name, value in fields.items():
        setattr(error, name, value)
    return error


class FalsyError(Exception):
    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")


ERRORS = [
    *(RuntimeError(text) for text in ODD),
    RuntimeError("x" * 5_000_000),
    RuntimeError(b"\xff", object()),
    KeyError("\udcff"),
    Stop("stop"),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    HostileError(lambda: raises(ValueError("in its text"))),
    HostileError(lambda: raises(Stop())),
    HostileError(lambda: raises(SystemExit())),
    HostileError(lambda: None),
    HostileError(lambda: 7),
    HostileError(lambda: Ideas("a text with ideas")),
    noted(RuntimeError("noted"), ["\ud800", HostileError(lambda: 7)]),
    noted(RuntimeError("noted"), 7),
    line_of_syntax(lineno="three", text=7, offset="x", filename=b"\xff"),
    ExceptionGroup("several \udcff", [ValueError("one"), HostileError(lambda: 1)]),
    FalsyError("x"),
]


@pytest.mark.parametrize("error", ERRORS, ids=range(len(ERRORS)))
@pytest.mark.parametrize("cause", [False, True])
def test_every_error_becomes_a_record(tmp_path: Path, error: BaseException, cause: bool) -> None:
    """With its class, what it says as far as that can be written, and where it happened."""
    try:
        if cause:
            raise RuntimeError("from something") from error
        raise error
    except BaseException as raised:
        found = failure(raised)
    record = make_record(failed="placeholder").model_copy(update={"error": found})
    assert kept(record, tmp_path).error == found
    assert found.type == type(error).__name__
    assert len(found.message) <= LONGEST_TEXT
    assert len(found.traceback) <= LONGEST_TEXT
    assert "test_every_error_becomes_a_record" in found.traceback
    assert describe(error).startswith(type(error).__name__)


def test_of_a_long_message_the_beginning_and_the_end_stay() -> None:
    """And how much is left out."""
    message = failure(RuntimeError("begins " + "x" * 1_000_000 + " ends")).message
    assert message.startswith("begins xxx")
    assert message.endswith("xxx ends")
    assert "980,112 characters left out" in message


def test_an_error_without_words_says_so() -> None:
    """Whatever its `__str__` does, except a user's interrupt."""
    assert "ZeroDivisionError" in said(HostileError(lambda: 1 / 0))
    assert "TypeError" in said(HostileError(lambda: 7))
    with pytest.raises(KeyboardInterrupt):
        said(HostileError(lambda: raises(KeyboardInterrupt())))


def test_a_refused_value_without_a_repr_is_described() -> None:
    """By its class."""

    class Silent:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    with pytest.raises(ValueError, match="valid number") as refused:
        Scalar(name="s", unit="", value=Silent())  # type: ignore[arg-type]
    assert "Silent" in describe(refused.value)


@given(text=TEXTS, other=TEXTS)
def test_every_text_of_a_plugin_can_be_written(tmp_path_factory: pytest.TempPathFactory, text: str, other: str) -> None:
    """Names, units, labels, verdicts, notes, warnings and reasons; what UTF-8 can write comes back as it was."""
    measurements: list[Measurement] = [
        Scalar(name=text, unit=other, value=1.0, verdict=text, meaning=other, about=text),
        Curve(name="c", unit=text, x=[text, "b"], y=[1, 2], x_label=text, y_label=other),
        Matrix(name="m", unit=text, values=[[1.0]], rows=[text], columns=[other], row_label=text, column_label=other),
    ]
    record = make_record(*measurements, notes=[text], warnings=[other], skipped=text)
    found = kept(record, tmp_path_factory.mktemp("run"))
    assert found == record
    try:
        text.encode()
    except UnicodeEncodeError:
        assert found.notes != [text]
        return
    assert found.notes == [text]
    assert found.reason == text
    assert found.measurements[0].name == text


def test_arguments_with_half_a_character_are_written(tmp_path: Path) -> None:
    """As a shell gives them for bytes that are no UTF-8; they are arguments of plugins, and no text of ours."""
    record = make_record()
    model = record.model.model_copy(update={"arguments": {"separator": "a\udcff", "more": [{"é": "\ud800"}]}})
    found = kept(record.model_copy(update={"model": model}), tmp_path)
    assert found.model.arguments == {"separator": "a?", "more": [{"é": "?"}]}


def test_text_that_is_none_is_refused_in_one_sentence() -> None:
    """As before: a number is no name."""
    with pytest.raises(ValueError, match=r"^1 validation error.*\n.*\n.*valid string"):
        Scalar(name=3, unit="", value=1.0)  # type: ignore[arg-type]
    assert Failure.model_json_schema()["properties"]["message"]["type"] == "string"


PLUGINS = """
    import torch
    from harness import Scalar, Skip
    from harness_plugins.models.lstm import LSTM

    class Mute(Exception):
        def __str__(self):
            raise ValueError("nothing to say")

    class MuteSkip(Skip):
        def __str__(self):
            return None

    def raising(subject):
        raise Mute

    def skipping(subject):
        raise MuteSkip

    def odd(subject):
        yield Scalar(name="a \\udcff", unit="\\0", value=1.0, verdict="\\x1b[31m" + "x" * 100_000)

    def huge(subject):
        raise RuntimeError("\\udcff" * 1_000_000)
"""


def test_a_run_survives_plugins_that_say_anything(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """Every cell has its record, on disk too, and reports of all formats are written."""
    file = plugin_file(PLUGINS)
    probes = [f"{file}:{name}" for name in ("raising", "skipping", "odd", "huge")]
    results = harness.run(
        ["lstm:hidden=8"], [SHORT], probes, seeds=1, training=SMALL, examples=16, out=tmp_path / "run"
    )
    assert [record.status for record in results] == ["failed", "skipped", "ok", "failed"]
    assert results.records[0].error is not None
    assert results.records[0].error.type == "Mute"
    loaded = harness.load(tmp_path / "run")
    assert {record.id: record for record in loaded} == {record.id: record for record in results}
    for form in ("text", "markdown", "latex", "csv", "json"):
        loaded.render(form).encode()
    for path in (tmp_path / "run" / "records").iterdir():
        json.loads(path.read_text(encoding="utf-8"))
