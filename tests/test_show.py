"""What `harness show` says about a plugin."""

import json
from collections.abc import Callable

import pytest

from harness.errors import RequestError
from harness.explain import describe_plugin, describe_suite

Write = Callable[..., str]

SOURCE = """
from functools import partial
from typing import Any
from torch import dtype, float16, nn

class Silent(nn.Module):
    def __init__(self, vocab_size: int, *, width: int = 3, of: dtype = float16, act: nn.Module = nn.ReLU()) -> None: ...

class Speaking(nn.Module):
    \"\"\"What it is.

        its formula

    More.
    \"\"\"
    def __init__(self, vocab_size: int, *, depth: int, **settings: Any) -> None: ...
"""


def test_documentation_is_the_plugins_own(plugin_file: Write) -> None:
    """And not that of `nn.Module`, where it has none."""
    path = plugin_file(SOURCE)
    assert describe_plugin("model", f"{path}:Silent").endswith(f"Set them like this: {path}:Silent:width=...")
    assert describe_plugin("model", f"{path}:Speaking").endswith("What it is.\n\n    its formula\n\nMore.")


@pytest.mark.filterwarnings("error")
def test_arguments_of_any_type_are_shown(plugin_file: Write) -> None:
    """Also those that the harness will refuse, since JSON cannot hold them."""
    path = plugin_file(SOURCE)
    shown = json.loads(describe_plugin("model", f"{path}:Silent", as_json=True))["arguments"]
    assert shown == [
        {"name": "width", "type": "int", "required": False, "default": 3},
        {"name": "of", "type": "dtype", "required": False, "default": "torch.float16"},
        {"name": "act", "type": "Module", "required": False, "default": "ReLU()"},
    ]
    (depth,) = json.loads(describe_plugin("model", f"{path}:Speaking", as_json=True))["arguments"]
    assert depth == {"name": "depth", "type": "int", "required": True, "default": None}


def test_a_askedwith_arguments_shows_the_plugin() -> None:
    """Whoever copies a label from a table finds the page."""
    assert describe_plugin("model", "lstm:hidden=3") == describe_plugin("model", "lstm")
    assert "argument" not in describe_plugin("probe", "accuracy")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("word_problem:group=S6", "should be S2 to S5"),
        ("mqar:pairs=[]", "pairs"),
        ("mqar:pear=3", "no argument 'pear'"),
    ],
)
def test_arguments_that_a_plugin_refuses_are_refused(asked: str, said: str) -> None:
    """With the sentence that a run would say, instead of a page about the defaults."""
    with pytest.raises(RequestError, match=said):
        describe_plugin("task", asked)


def test_a_suite_tells_its_grid() -> None:
    """Beside its seeds: how often each model is trained."""
    assert "lr 0.001, 0.003, 0.01" in describe_suite("battery-small").splitlines()
