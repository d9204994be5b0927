"""Whatever is typed, written into files or passed from Python: an answer at once, never a traceback, and the right exit
code. 0 says that everything that was asked for is there."""

import copy
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import hostile
import jaxtyping
import pytest
from hostile import ask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from record_factory import record

import harness
from harness import hookimpl
from harness.errors import LONGEST_MESSAGE, HarnessError, RequestError, shown
from harness.registry import default_registry
from harness.schema import Record
from harness.suite_files import load_suite
from harness.testing.results import CheckReport
from harness.written import DEEPEST

RUN: tuple[str, ...] = (
    "run",
    "--model",
    "lstm:hidden=4",
    "--seeds",
    "1",
    "--examples",
    "8",
    "--jobs",
    "1",
    "--out",
    "there",
)
RUN += ("--task", "recall:train_max=5,distances=[1]", "--training", "steps=1,batch_size=2")

SHORT = settings(max_examples=40, suppress_health_check=[*HealthCheck])
THOROUGH = settings(max_examples=3000, derandomize=False, suppress_health_check=[*HealthCheck])


@pytest.fixture(scope="module", autouse=True)
def _elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """In a folder of strange files."""
    before, folder = Path.cwd(), tmp_path_factory.mktemp("strange")
    hostile.strange_folder(folder)
    os.chdir(folder)
    yield
    os.chdir(before)


Test = Callable[..., None]


def both(**strategies: st.SearchStrategy[Any]) -> Callable[[Test], Test]:
    """A test of some examples, and, if slow ones are asked for, of thousands."""

    def decorate(test: Test) -> Test:
        short, thorough = (profile(given(**strategies)(copy.copy(test))) for profile in (SHORT, THOROUGH))

        @pytest.mark.parametrize("run", [short, pytest.param(thorough, marks=pytest.mark.slow)], ids=["short", "long"])
        def examples(run: Callable[[], None]) -> None:
            run()

        examples.__doc__ = test.__doc__
        return examples

    return decorate


@both(words=hostile.plans)
def test_any_plan(words: list[str]) -> None:
    """What `run` may be asked, as far as the plan."""
    hostile.check(ask(words))


@both(words=hostile.others)
def test_any_other_command(words: list[str]) -> None:
    """What shows, lists, reports and writes packages."""
    hostile.check(ask(words))


@both(words=hostile.checks)
def test_any_check(words: list[str]) -> None:
    """Of what is not there, nothing is checked, and so the code is not 0."""
    answer = ask(words)
    hostile.check(answer)
    assert answer.code != 0 or "passed" in answer.out or "--help" in words


@pytest.mark.parametrize(
    "words",
    [
        ["--seeds", "100000000"],
        ["--seeds", "9" * 4000],
        ["--training", "steps=" + "9" * 4000],
        ["--jobs", "100000"],
        ["--examples", "9" * 4000],
        ["--examples", "1000000000"],
        ["--task", f"recall:distances={list(range(1, 20_000))}"],
        ["--task", "recall:train_max=1000000000000"],
        ["--task", "recall:train_max=1000000000000", "--training", "epochs=1"],
        ["--training", "steps=1000000000000"],
        ["--model", "hf:config=gpt2,n_layer=100000000"],
        ["--model", "hf:config=gpt2,n_layer=" + "9" * 4000],
        ["--model", "hf:config=gpt2,n_embd=1000000000000"],
        [*("--model", "gpt") * 2000, *("--training", "lr=1") * 2000],
    ],
    ids=lambda words: " ".join(words)[:60],
)
def test_to_ask_for_too_much_costs_no_time(words: list[str]) -> None:
    """Planned or refused, but at once."""
    hostile.check(ask(["run", "--dry-run", "--model", "lstm", *words]))


anything = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.sampled_from(hostile.VALUES)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)
"""What JSON can say."""

SUITE: dict[str, Any] = {
    "name": "mine",
    "summary": "",
    "seeds": 2,
    "examples": 8,
    "training": {"steps": 5},
    "experiments": [{"models": ["lstm"], "tasks": ["recall"], "probes": ["accuracy"], "training": {}, "stages": None}],
    "claims": [
        {"text": "c", "probe": "accuracy", "metric": "accuracy", "at": 5, "comparison": ">", "value": 0.5}
        | {
            "model": "lstm",
            "task": "recall",
            "stage": "trained",
            "margin": 0.0,
            "factor": 1.0,
            "than": None,
            "row": None,
        }
    ],
}


def paths(content: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in data."""
    parts = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, inner in parts:
        yield (*before, key)
        yield from paths(inner, (*before, key))


def put(content: Any, place: Sequence[Any], value: Any) -> Any:
    """The data with another value in that place."""
    changed = copy.deepcopy(content)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


def toml(value: Any) -> str:
    """A value in TOML, as far as it can be said there."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(key))} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, bool | int | float) or value is None:
        return '"none"' if value is None else repr(value).lower() if abs(value) < 10**18 else "9" * 5000
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "")


@both(place=st.sampled_from([*paths(SUITE)]), value=anything)
def test_any_suite(place: tuple[Any, ...], value: Any) -> None:
    """Anything at any key of a suite's file."""
    text = "\n".join(f"{key} = {toml(each)}" for key, each in put(SUITE, place, value).items() if each is not None)
    Path("suite.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    for words in (["show", "suite", "suite.toml"], ["run", "suite.toml", "--dry-run"]):
        hostile.check(ask(words))


@both(data=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_file_for_a_suite(data: bytes) -> None:
    """Bytes, most of them no TOML."""
    Path("suite.toml").write_bytes(data)
    answer = ask(["run", "suite.toml", "--dry-run"])
    hostile.check(answer)
    assert answer.code == 2


class Liar:
    """An object that cannot even be shown."""

    def __repr__(self) -> str:
        raise ZeroDivisionError


deep: list[Any] = []
for _ in range(5000):
    deep = [deep]
cyclic: dict[str, Any] = {"name": "lstm"}
cyclic["hidden"] = cyclic
STRANGE: dict[str, Any] = {
    **{"liar": Liar(), "deep": deep, "cyclic": cyclic, "digits": 10**5000, "bytes": b"lstm", "complex": 3j},
    **{"class": Liar, "object": object, "built-in": len, "lambda": lambda: 0, "path": Path("folder")},
    **{"deep name": {"name": deep}, "deep argument": {"name": "lstm", "hidden": deep}, "deep setting": {"lr": deep}},
    **{"liars": [Liar()], "liar's name": {"name": Liar()}},
    **{"named 3": {"name": 3}, "3": {3: 4}, "tuple": (), "set": {1}, "range": range(3), "iterator": iter(())},
    **{"NUL": "\0", "NUL in a path": "\0.toml", "nothing": ["lstm", None], "lists": [["lstm"]], "nan": float("nan")},
}
"""By name, since not all of them can be printed."""


class Odd(NamedTuple):
    """One of them."""

    name: str


objects = st.one_of(anything, st.builds(Odd, st.sampled_from([*STRANGE])))
ARGUMENTS = ("models", "tasks", "probes", "suite", "seeds", "training", "stages", "examples", "out", "jobs", "device")


class PlannedError(Exception):
    """The call was right, and would run now."""


@pytest.fixture
def _only_planned(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Calls end with `PlannedError`, and as for users, without a check of types."""

    def stop(*arguments: Any, **named: Any) -> None:
        raise PlannedError

    monkeypatch.setattr("harness.api.execute", stop)
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.mark.usefixtures("_only_planned")
@both(given=st.dictionaries(st.sampled_from(ARGUMENTS), objects, min_size=1, max_size=2))
def test_any_call(given: dict[str, Any]) -> None:
    """A wrong call from Python is a `HarnessError` that fits one screen."""
    asked = {name: STRANGE[value.name] if isinstance(value, Odd) else value for name, value in given.items()}
    with hostile.limit(300):
        try:
            harness.run(**{"models": ["lstm"], **asked})
        except PlannedError:
            return
        except HarnessError as error:
            assert 10 < len(str(error)) < 2000  # noqa: PT017


@pytest.fixture(scope="module")
def a_run() -> Path:
    """A run directory."""
    folder = Path("run").absolute()
    (folder / "records").mkdir(parents=True)
    (folder / "trials").mkdir()
    return folder


@pytest.mark.parametrize("thorough", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_any_record(a_run: Path, thorough: bool) -> None:
    """Anything at any key of a record or of the suite that is kept beside it: what can be read is shown, the rest is
    said, and then the code is 1."""
    whole = json.loads(record(seed=0).model_dump_json())
    places = [*paths(whole)]

    @(THOROUGH if thorough else SHORT)
    @given(place=st.sampled_from(places), value=anything, kept=anything)
    def damaged(place: tuple[Any, ...], value: Any, kept: Any) -> None:
        content = json.dumps(put(whole, place, value)).encode("utf-8", "surrogatepass")
        (a_run / "records" / "0000000000000000.json").write_bytes(content)
        if isinstance(kept, dict):
            (a_run / "suite.json").write_text(json.dumps(SUITE | kept), encoding="utf-8")
        for form in ("text", "json", "csv", "markdown", "latex"):
            hostile.check(ask(["report", str(a_run), "--format", form]))

    damaged()


def test_a_report_of_a_damaged_run_shows_the_rest_and_is_no_success() -> None:
    """Exit code 1: a script must not take a part for the whole."""
    folder = Path("damaged/records")
    folder.mkdir(parents=True)
    whole = record(seed=0)
    (folder / f"{whole.id}.json").write_text(whole.model_dump_json(), encoding="utf-8")
    assert ask(["report", "damaged", "--format", "json"]).code == 0
    (folder / "0.json").write_text("[" * 5000, encoding="utf-8")
    answer = ask(["report", "damaged", "--format", "json"])
    assert answer.code == 1
    assert "1 of 2 record files cannot be read" in answer.err
    assert [Record.model_validate(each).id for each in json.loads(answer.out)] == [whole.id]


def test_a_record_that_somebody_deletes_meanwhile_is_written_again() -> None:
    """A run is a success only if every cell has a record."""

    class Thief:
        @hookimpl
        def harness_record_written(self, record: Record) -> None:
            Path("there/records", f"{record.id}.json").unlink()

    thief, manager = Thief(), default_registry().manager
    manager.register(thief)
    try:
        answer = ask(RUN)
    finally:
        manager.unregister(thief)
    assert answer.code == 0
    assert len(list(Path("there/records").glob("*.json"))) == 1


def test_nothing_that_is_checked_is_no_success() -> None:
    """Even if no check says why it does not apply."""
    report = CheckReport("model", "lstm", ())
    assert report.unchecked
    assert "nothing was checked" in report.text()


@pytest.mark.parametrize("name", ["deep", "digits", "keys", "large", "pipe", "folder", "zero", "loop", "bytes"])
def test_a_file_that_is_no_suite_is_named(name: str) -> None:
    """By its path, with what is wrong."""
    with pytest.raises(RequestError, match=f"the suite '{name}.toml'"):
        load_suite(Path(f"{name}.toml"))


@pytest.mark.parametrize("levels", [DEEPEST + 1, 500, 3000])
@pytest.mark.parametrize("words", [("--model", "lstm:hidden="), ("--training", "lr="), ("--task", "recall:distances=")])
def test_nested_brackets_are_refused(levels: int, words: tuple[str, str]) -> None:
    """Whether or not JSON reads as many."""
    option, value = words
    answer = ask(["run", "--dry-run", "--model", "lstm", option, value + "[" * levels + "]" * levels])
    hostile.check(answer)
    assert answer.code == 2
    assert value.partition(":")[2].rstrip("=") in answer.err


def test_messages_fit_one_screen() -> None:
    """With their beginning and their end, whatever is between."""
    message = str(HarnessError(f"there is no {hostile.LONG}, {'and ' * 5000}so: give another"))
    assert len(message) <= LONGEST_MESSAGE
    assert message.startswith("there is no xxx")
    assert message.endswith("so: give another")
    assert str(HarnessError(f"no {'/tmp' * 100}")) == f"no {'/tmp' * 100}"  # a path is shown whole


@pytest.mark.parametrize("name", [*STRANGE])
def test_any_value_can_be_shown(name: str) -> None:
    """On one short line."""
    assert 1 < len(shown(STRANGE[name])) < 300
    assert "\n" not in shown(STRANGE[name])
