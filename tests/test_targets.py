"""Requests become code with validated arguments."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.arguments import argument_model
from harness.errors import PluginError, RequestError
from harness.plugin import Plugin, resolve
from harness.registry import Entry, Origin, default_registry
from harness.specs import Spec
from harness.suites import Request
from harness.targets import find_entry, load_definition
from harness.written import format_arguments, parse_arguments, parse_request


def plugin(text: str, kind: str = "model") -> Plugin:
    request = Request.model_validate(text)
    return resolve(load_definition(find_entry(default_registry(), kind, request.name)), request)


def arguments(text: str) -> dict[str, object]:
    return plugin(text).use.arguments


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


@pytest.mark.parametrize(
    ("text", "alias", "name"),
    [
        ("small=hf:path=/a/b=c", "small", "hf"),
        ("SmolLM2-135M=hf:path=/a", "SmolLM2-135M", "hf"),
        ("small=./a=b/gru.py:GRU:hidden=3", "small", "./a=b/gru.py:GRU"),
        ("./a=b/gru.py:GRU:hidden=3", "", "./a=b/gru.py:GRU"),
        ("hf:path=/a", "", "hf"),
        ("old=acme:gru", "old", "acme:gru"),
    ],
)
def test_an_alias_is_a_word_before_the_first_colon(text: str, alias: str, name: str) -> None:
    """So neither a path nor an argument is taken for one; what is printed can be typed again."""
    request = Request.model_validate(text)
    assert (request.alias, request.name) == (alias, name)
    assert Request.model_validate(str(request)) == request
    table = {"name": name, **request.arguments, **({"alias": alias} if alias else {})}
    assert Request.model_validate(table) == request


@pytest.mark.parametrize("text", ["small=", "small=:hidden=3"])
def test_an_alias_needs_a_name(text: str) -> None:
    """There is nothing that it could be the alias of."""
    with pytest.raises(RequestError, match="cannot read"):
        Request.model_validate(text)


def test_no_argument_is_called_alias(plugin_file: Callable[..., str]) -> None:
    """A table could not tell the two apart; neither the plugin's argument nor the user's is lost in silence."""
    path = plugin_file("class M:\n    def __init__(self, *, alias: int = 3): ...\n")
    with pytest.raises(PluginError, match="no argument can be called 'alias'; rename it"):
        arguments(f"{path}:M")
    with pytest.raises(RequestError, match=r"no plugin has an argument 'alias'.* small=hf"):
        Request.model_validate("hf:config=mamba,alias=3")
    with pytest.raises(ValueError, match="an alias is a word"):
        Request.model_validate({"name": "hf", "alias": "a/b"})


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
    assert arguments("lstm:hidden=8")["embedding"] == 32


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
        arguments(request_)
    assert request_.partition(":")[0] in str(error.value)


def test_none_is_a_word_or_nothing(plugin_file: Callable[..., str]) -> None:
    """`none` stays the word where a plugin knows it, and is None where the word does not fit."""
    path = plugin_file("class M:\n    def __init__(self, *, size: int | None = 3): ...\n")
    assert arguments("gpt:position=none")["position"] == "none"
    assert arguments(f"{path}:M:size=none")["size"] is None


def test_a_label_shows_what_differs_from_the_defaults() -> None:
    """Tables stay readable: given defaults are not repeated."""
    use = plugin("lstm:hidden=64,forget_bias=3").use
    assert use.label == "lstm:forget_bias=3.0"


def test_positional_arguments_are_refused(plugin_file: Callable[..., str]) -> None:
    """The harness passes keywords; a plugin that cannot take them hears so."""
    path = plugin_file("class M:\n    def __init__(self, *sizes: int): ...\n")
    with pytest.raises(PluginError, match="by position"):
        plugin(f"{path}:M")


@pytest.mark.parametrize("request_", ["{path}:M", "{path}:M:depth=3"])
def test_a_default_that_does_not_fit_is_the_plugins_fault(plugin_file: Callable[..., str], request_: str) -> None:
    """The user did not write it; whatever else was asked for."""
    path = plugin_file("class M:\n    def __init__(self, *, width: int = 'many', depth: int = 2): ...\n")
    with pytest.raises(PluginError, match="its own default 'width' = 'many'"):
        arguments(request_.format(path=path))


def test_arguments_are_plain_data(plugin_file: Callable[..., str]) -> None:
    """What a record could not keep is refused, and said to be the plugin's fault."""
    path = plugin_file("from torch import nn\nclass M:\n    def __init__(self, *, act: nn.Module = nn.ReLU()): ...\n")
    with pytest.raises(PluginError, match="Arguments must be plain data"):
        arguments(f"{path}:M")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["copy", "json", "schema", "model_size", "self_"])
def test_arguments_have_any_name(plugin_file: Callable[..., str], name: str) -> None:
    """Also that of a method of what validates them."""
    path = plugin_file(f"class M:\n    def __init__(self, *, {name}: int = 3):\n        self.got = {name}\n")
    assert plugin(f"{path}:M:{name}=4").construct().got == 4


@pytest.mark.parametrize("name", ["_width", "model_config", "model_fields", "model_dump"])
def test_a_few_names_are_refused(plugin_file: Callable[..., str], name: str) -> None:
    """Rather than lost."""
    path = plugin_file(f"class M:\n    def __init__(self, *, {name}: int = 3): ...\n")
    with pytest.raises(PluginError, match=f"no argument can be called '{name}'; rename it"):
        arguments(f"{path}:M")


def test_arguments_that_do_not_go_together_are_explained_in_one_line(plugin_file: Callable[..., str]) -> None:
    """Whatever kind of ValueError the plugin raises."""
    path = plugin_file("""
        from pydantic import BaseModel
        class Settings(BaseModel):
            width: int
        class M:
            def __init__(self, *, width: str = "3"): ...
            @staticmethod
            def check_arguments(width):
                Settings(width=width)
    """)
    with pytest.raises(RequestError, match="width: Input should be a valid integer") as error:
        arguments(f"{path}:M:width=wide")
    assert "\n" not in str(error.value)


def test_a_new_kind_of_plugin_takes_its_arguments_from_users_alone() -> None:
    """Until the harness is to supply some."""

    class CriticSpec(Spec):
        kind = "critic"

    def code(subject: str, strict: bool = True) -> None: ...

    entry = Entry(CriticSpec("crit", "acme:code"), Origin("", "", ""))
    assert [*argument_model(entry, code).model_fields] == ["subject", "strict"]
