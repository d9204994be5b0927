"""What nobody in their right mind gives to the harness, and what it must answer."""

import io
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from hypothesis import strategies as st

from harness.cli import main

LONG = "x" * 100_000
DEEP = 3000
EVIL = "<script>alert(1)</script>"

FILES = (
    *("", "~", ".", "..", "/", "/dev/zero", "/dev/full", "/dev/null", "folder", "pipe", "loop", "missing", "secret"),
    *("\udcff", "a\udcffb", LONG, "x" * 300, "a\nb", "a b", "é"),
)
"""Paths; `strange_folder` makes those that are no text of nobody."""
NUMBERS = (
    *("nan", "inf", "-inf", "1e999", "-1", "0", "007", "1_000", "٣", "0x10", "1.5", "1e-400", "9" * 5000, "9" * 30),
    *("1000000000", "1000000000000"),
)
NESTED = ("[" * DEEP, "[" * DEEP + "]" * DEEP, '{"a":' * DEEP, "[" * 900 + "]" * 900, "[" * 60 + "]" * 60)
SOUP = (
    "=",
    ",",
    ":",
    "===",
    ",,,",
    ":::",
    "a=b=c",
    ":a=1",
    "a:=1",
    "a=,b=",
    "=a:b",
    "'",
    '"',
    "[,",
    "{}",
    "\\",
    "--",
    "-",
)
VALUES = (*NUMBERS, *NESTED, *SOUP, *FILES, "none", "true", "null", "[]", "[1,2]", '"text"', "\x1b[2J", "﷐", "\u202e")

MODELS: tuple[str, ...] = (
    "lstm",
    "gpt",
    "gpt:layers",
    "gpt:position",
    "gpt:__class__",
    "lstm:hidden",
    "hf:path",
    "hf:config",
)
MODELS += ("hf:config=gpt2,n_layer", "hf:config=gpt2,n_embd", "hf:path=folder,gguf_file", "sequence-harness:gpt:heads")
TASKS = ("recall", "recall:train_max", "recall:distances", "recall:items", "minimal_pairs:file", "noise:length")
PROBES = ("accuracy", "edge_cut:layer", "grad_reach", "speed:lengths")
CODE: tuple[str, ...] = (
    "pipe.py",
    "loop.py",
    "folder.py",
    "zero.py",
    "broken.py",
    "bytes.py",
    "deep.py",
    "exits.py",
    "calls.py",
    "..",
    "",
)
CODE += ("builtins", "json", "a.b", "x..y", "\udcff", LONG)
SUITES: tuple[str, ...] = (
    "recall",
    "agreement",
    "bench",
    "pipe.toml",
    "loop.toml",
    "folder.toml",
    "zero.toml",
    "bytes.toml",
    "deep.toml",
)
SUITES += ("digits.toml", "dates.toml", "keys.toml", "large.toml", "empty.toml")


def strange_folder(folder: Path) -> None:
    """Fill a folder with what can be there, and should not."""
    (folder / "folder").mkdir()
    for ending in ("", ".py", ".toml"):
        os.mkfifo(folder / f"pipe{ending}")
        (folder / f"loop{ending}").symlink_to(f"loop{ending}")
        if ending:
            (folder / f"folder{ending}").mkdir()
            (folder / f"zero{ending}").symlink_to("/dev/zero")
            (folder / f"bytes{ending}").write_bytes(b"\xff\xfe\0\n")
    (folder / "secret").touch(mode=0o000)
    texts = {
        "broken.py": "def (",
        "deep.py": f"a = {'(' * DEEP}{')' * DEEP}",
        "exits.py": "raise SystemExit(0)",
        "calls.py": "def A(): A()\nA()",
        "deep.toml": f"a = {'[' * DEEP}{']' * DEEP}",
        "digits.toml": f"seeds = {'9' * 5000}",
        "dates.toml": "[[experiments]]\nmodels = [{name = 'lstm', hidden = 1979-05-27}]",
        "keys.toml": f"a{'.a' * DEEP} = 1",
        "large.toml": "a = 1\n" * 1_000_000,
        "empty.toml": "",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


class Answer(NamedTuple):
    """What a command did."""

    words: Sequence[str]
    code: int | str | None
    out: str
    err: str
    seconds: float


class _Printed(io.StringIO):
    encoding = "utf-8"


@contextmanager
def limit(seconds: int) -> Iterator[None]:
    """End what waits for ever, so that the test fails instead of the run."""

    def over(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"still at it after {seconds} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _typed(word: str) -> str:
    """As an argument arrives where a terminal sends UTF-8, whatever this process takes files to be named in."""
    return os.fsdecode(word.encode("utf-8", "surrogateescape"))


def ask(words: Sequence[str]) -> Answer:
    """Type a command; any exception but its exit goes on."""
    out, err = _Printed(), _Printed()
    code: int | str | None = "none"
    begin = time.process_time()
    with limit(300), redirect_stdout(out), redirect_stderr(err):
        try:
            main(args=[_typed(word) for word in words], prog_name="harness")
        except SystemExit as end:
            code = end.code
    return Answer(words, code, out.getvalue(), err.getvalue(), time.process_time() - begin)


def check(answer: Answer) -> None:
    """An answer that is none is one error of one screen, with the right code, at once."""
    said = ascii([word[:80] for word in answer.words])
    assert answer.code in (0, 1, 2), (said, answer.code)
    assert answer.seconds < 10, said
    assert "Traceback (most" not in answer.out + answer.err, (said, ascii(answer.err[:500]))
    if answer.code == 2:
        assert "Error: " in answer.err, said
        assert answer.out == "", said
    if answer.code != 0:
        assert len(answer.err) < 2000, (said, ascii(answer.err[:500]))
        assert answer.err or answer.out, said


texts = st.text(max_size=40).map(lambda text: text.replace("\0", "").lstrip("/"))
raw = st.binary(max_size=12).map(lambda data: os.fsdecode(data.replace(b"\0", b"").lstrip(b"/")))
values = st.one_of(st.sampled_from(VALUES), texts, raw)


def _plugin(names: Sequence[str]) -> st.SearchStrategy[str]:
    named = st.builds("{}={}".format, st.sampled_from(names), values)
    of_code = st.builds("{}:{}".format, st.sampled_from(CODE), st.sampled_from(("A", "loads", "print", "", LONG, "é")))
    several = st.builds("{}={},{}={}".format, st.sampled_from(names), values, texts, values)
    return st.one_of(st.sampled_from(names), named, of_code, several, st.builds("{}={}".format, texts, named), values)


models, tasks, probes = _plugin(MODELS), _plugin(TASKS), _plugin(PROBES)
SETTINGS = ("lr", "steps", "batch_size", "epochs", "warmup", "optimizer", "clip", "validate_every", "schedule")
training = st.one_of(st.builds("{}={}".format, st.sampled_from(SETTINGS), values), values)
suites = st.one_of(st.sampled_from(SUITES), values)


def _option(name: str, value: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    return st.one_of(value.map(lambda each: [name, each]), value.map(lambda each: [f"{name}={each}"]))


def _line(*parts: st.SearchStrategy[Any]) -> st.SearchStrategy[list[str]]:
    """A command line of words and lists of words."""
    return st.tuples(*parts).map(
        lambda found: [word for part in found for word in (part if isinstance(part, list) else [part])]
    )


plans = _line(
    st.just(["run", "--dry-run"]),  # nothing can take the second word for its value
    st.lists(
        st.one_of(
            _option("--model", models),
            _option("--model", models),
            _option("--task", tasks),
            _option("--probe", probes),
            _option("--training", training),
            _option("--out", values),
            *(_option(f"--{name}", values) for name in ("seeds", "examples", "jobs", "device", "stage", "format")),
            suites.map(lambda each: [each]),
            values.map(lambda each: [f"--{each}"]),
        ),
        max_size=5,
    ).map(lambda options: [word for option in options for word in option]),
)
kinds = st.one_of(st.sampled_from(("model", "task", "probe", "suite", "models")), values)
names = st.one_of(models, tasks, probes, suites)
forms: st.SearchStrategy[list[str]] = st.one_of(
    st.just([]), _option("--format", st.one_of(st.sampled_from(("json", "text", "csv")), values))
)
others = st.one_of(
    _line(st.just("list"), kinds, forms),
    _line(st.just("show"), kinds, names, forms),
    _line(st.just("report"), values, forms),
    _line(st.just("schema"), values),
    _line(
        st.just("new"), kinds, values, _option("--into", st.sampled_from(["folder", "pipe", "loop", "secret", LONG]))
    ),
    _line(st.just("bench"), values.map(lambda each: f"--x{each}")),
    _line(values.filter(lambda word: word not in ("-h", "--help")), values),
)
checks = _line(st.just("check"), st.one_of(values, st.builds("{}:{}".format, st.sampled_from(CODE), texts)), forms)
