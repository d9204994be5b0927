"""Requests become code with validated arguments and a fingerprint."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import PluginError, RequestError
from harness.registry import default_registry
from harness.suites import Request, format_arguments, parse_arguments, parse_request
from harness.targets import Target, find, load


def target(name: str, kind: str = "model") -> Target:
    return load(find(default_registry(), kind, name))


def resolve(text: str, kind: str = "model") -> dict[str, object]:
    request = Request.model_validate(text)
    return target(request.name, kind).resolve(request).arguments


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("lstm", "lstm", {}),
        ("gpt:position=none,layers=4", "gpt", {"position": "none", "layers": 4}),
        ("acme:gru:hidden=3", "acme:gru", {"hidden": 3}),
        ("./gru.py:GRU", "./gru.py:GRU", {}),
        ("./gru.py:GRU:hidden=3", "./gru.py:GRU", {"hidden": 3}),
        ("recall:distances=[1, 5],train_max=5", "recall", {"distances": [1, 5], "train_max": 5}),
        ("hf:path=/a/b=c,lr=1e-3", "hf", {"path": "/a/b=c", "lr": 1e-3}),
        ('x:text="a,b",flag=true', "x", {"text": "a,b", "flag": True}),
    ],
)
def test_a_request_is_a_name_and_arguments(text: str, name: str, arguments: dict[str, object]) -> None:
    """The command line's short form reads as people expect."""
    assert parse_request(text) == {"name": name, "arguments": arguments}


VALUES = st.one_of(
    st.integers(),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(alphabet="abcxyz_-./ ,\"'\\[", min_size=1),
    st.lists(st.integers()),
)


@given(st.dictionaries(st.sampled_from(["a", "b", "layers"]), VALUES))
def test_arguments_survive_being_written_and_read(arguments: dict[str, object]) -> None:
    """Labels are requests: what is printed can be typed again."""
    assert parse_arguments(format_arguments(arguments)) == arguments


@pytest.mark.parametrize("text", ["a=1,a=2", "a=1,b", "=3"])
def test_arguments_that_cannot_be_read_are_refused(text: str) -> None:
    """Never a silent half."""
    with pytest.raises(RequestError):
        parse_arguments(text)


def test_defaults_are_filled_in() -> None:
    """Records keep every argument, whether it was given or not."""
    assert resolve("lstm:hidden=8")["embedding"] == 32


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ("lstm:hiden=3", "Did you mean 'hidden'?"),
        ("lstm:hidden=-1", "greater than 0"),
        ("lstm:hidden=many", "'hidden' = 'many'"),
        ("gpt:position=learnt", "position"),
        ("gpt:heads=3", "divisible"),
    ],
)
def test_a_wrong_argument_is_named(request_: str, said: str) -> None:
    """The error names the plugin, the argument, what was received and what would do."""
    with pytest.raises(RequestError, match=said) as error:
        resolve(request_)
    assert request_.partition(":")[0] in str(error.value)


def test_none_is_a_word_or_nothing(plugin_file: Callable[..., str]) -> None:
    """`none` stays the word where a plugin knows it, and is None where the word does not fit."""
    path = plugin_file("class M:\n    def __init__(self, *, size: int | None = 3): ...\n")
    assert resolve("gpt:position=none")["position"] == "none"
    assert resolve(f"{path}:M:size=none")["size"] is None


def test_a_class_in_a_file_needs_no_package(plugin_file: Callable[..., str]) -> None:
    """`./file.py:Name` works for a class as it stands, with its neighbours importable."""
    plugin_file("WIDTH = 5\n", "neighbour_of_plugin.py")
    path = plugin_file(
        "from neighbour_of_plugin import WIDTH\nclass M:\n    def __init__(self, *, w: int = WIDTH): ...\n"
    )
    assert resolve(f"{path}:M") == {"w": 5}
    assert str(Path(path).parent) not in sys.path


def test_a_label_shows_what_differs_from_the_defaults() -> None:
    """Tables stay readable: given defaults are not repeated."""
    use = target("lstm").resolve(Request.model_validate("lstm:hidden=64,forget_bias=3"))
    assert use.label == "lstm:forget_bias=3.0"


@pytest.mark.parametrize(
    ("name", "said"),
    [("./no_such.py:M", "there is no file"), ("no.such.module:M", "there is no model")],
)
def test_code_that_is_not_there_is_a_wrong_request(name: str, said: str) -> None:
    """A path that does not exist is the user's slip, not a plugin's failure."""
    with pytest.raises(RequestError, match=said):
        target(name)


def test_code_that_does_not_load_is_the_plugins_fault(plugin_file: Callable[..., str]) -> None:
    """An exception on import names the plugin and the cause; a missing name is suggested."""
    with pytest.raises(PluginError, match="ZeroDivisionError"):
        target(plugin_file("1 / 0\n", "a.py") + ":M")
    with pytest.raises(PluginError, match="Did you mean 'Model'"):
        target(plugin_file("class Model: ...\n", "b.py") + ":Modl")


def test_positional_arguments_are_refused(plugin_file: Callable[..., str]) -> None:
    """The harness passes keywords; a plugin that cannot take them hears so."""
    path = plugin_file("class M:\n    def __init__(self, *sizes: int): ...\n")
    with pytest.raises(PluginError, match="by position"):
        target(f"{path}:M").resolve(Request(name="M"))


def test_the_digest_follows_the_source(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """Any change in the plugin, or in a module of its own that it imports, gives another digest; other files do not."""

    def digest(folder: str, body: str, helper: str) -> str:
        (tmp_path / folder).mkdir()
        plugin_file(helper, f"{folder}/helper_{folder}.py")
        path = plugin_file(f"import helper_{folder} as helper\nclass M: {body}\n", f"{folder}/plugin.py")
        return target(f"{path}:M").resolve(Request(name="M")).digest

    digests = [digest("a", "x = 1", "y = 1"), digest("b", "x = 2", "y = 1"), digest("c", "x = 1", "y = 2")]
    assert len(set(digests)) == 3


def test_the_digest_sees_imports_that_come_later(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """An import inside a function counts before it has run, so that a digest does not depend on what ran before."""

    def digest(folder: str, helper: str) -> str:
        (tmp_path / folder).mkdir()
        plugin_file(helper, f"{folder}/late_helper.py")
        source = "class M:\n    def forward(self):\n        import late_helper\n"
        return target(plugin_file(source, f"{folder}/plugin.py") + ":M").resolve(Request(name="M")).digest

    assert digest("one", "x = 1") != digest("two", "x = 2")
    assert digest("three", "x = 1") == digest("four", "x = 1")
