"""Plugins are found, kept apart and explained."""

import json
import threading
from pathlib import Path
from typing import Any

import pydantic
import pytest
import torch
from entry_points import entry_points_in, write_distribution

from harness.errors import RequestError, describe, place_of_error
from harness.registry import Registry, build_registry, default_registry
from harness.traces import Traces

OFFER = """
from harness import ModelSpec, hookimpl

@hookimpl
def harness_models():
    yield ModelSpec({name!r}, {target!r}, summary="a model"{more})
"""


@pytest.fixture
def registry_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Build a registry from `{module name: source}`; each module is a distribution of the same name."""

    def build(**modules: str) -> Registry:
        for name, source in modules.items():
            write_distribution(tmp_path, monkeypatch, name, source)
        return build_registry(entry_points_in(tmp_path))

    return build


def offer(name: str = "acme", target: str = "math:sqrt", more: str = "") -> str:
    return OFFER.format(name=name, target=target, more=more)


def reasons(registry: Registry) -> str:
    return "\n".join(str(broken) for broken in registry.broken)


def test_built_ins_come_in_by_the_same_door() -> None:
    """The installed package offers its own plugins through entry points, and none of them is broken."""
    registry = default_registry()
    assert {entry.spec.name for entry in registry.all("model")} >= {"elman", "lstm", "gru", "gpt"}
    assert {entry.origin.distribution for entry in registry.all("model")} == {"sequence-harness"}
    assert registry.broken == []


def test_a_plugin_is_found_by_name_and_by_qualified_name(registry_of: Any) -> None:
    """`acme` and `one:acme` are the same plugin when one distribution offers it."""
    registry = registry_of(one=offer())
    assert registry.find("model", "acme") == registry.find("model", "one:acme")


UNKNOWN = """
from harness import hookimpl

@hookimpl
def harness_unknown(kind, name):
    if (kind, name) == ("model", "gru2"):
        yield "One gate more: acme:gates=3"
"""


def test_a_plugin_may_say_what_an_unknown_name_means(registry_of: Any) -> None:
    """At the end of the message, and only where it has something to say."""
    registry = registry_of(one=UNKNOWN, two=offer())
    for kind, name, said in (("model", "gru2", True), ("model", "gru3", False), ("task", "gru2", False)):
        with pytest.raises(RequestError, match=f"there is no {kind} '{name}'") as error:
            registry.find(kind, name)
        assert str(error.value).endswith(" One gate more: acme:gates=3") == said


def test_a_broken_import_harms_nobody_else(registry_of: Any) -> None:
    """A module that raises on import is listed with its reason; its neighbour works."""
    registry = registry_of(bad="raise RuntimeError('no licence')", good=offer())
    assert "RuntimeError: no licence" in reasons(registry)
    assert "bad 1.0" in reasons(registry)
    assert registry.find("model", "acme").origin.distribution == "good"


def test_a_plugin_that_exits_on_import_is_only_broken(registry_of: Any) -> None:
    """Even `sys.exit` in a plugin does not end the harness."""
    assert "SystemExit" in reasons(registry_of(bad="import sys; sys.exit(3)"))


def test_a_hook_that_raises_is_broken(registry_of: Any) -> None:
    """A hook may fail while it yields; what the other plugins offer is there."""
    source = offer() + "    raise KeyError('later')\n"
    registry = registry_of(bad=source, good=offer(name="fine"))
    assert "harness_models raised KeyError" in reasons(registry)
    assert registry.find("model", "fine")


LEFT = {
    "torch.set_default_dtype(torch.float64)": "default dtype",
    "torch.nn.functional.gelu = torch.nn.functional.relu": "torch.nn.functional.gelu replaced",
    "torch.nn.Linear.forward = lambda self, x: x": "Linear.forward replaced",
    "threading.Thread(target=time.sleep, args=(9,), name='draws', daemon=True).start()": "a thread (draws)",
}
"""What a module of hooks may do, and how it is called."""


@pytest.mark.parametrize("where", ["import", "hook"])
@pytest.mark.parametrize("deed", LEFT)
def test_a_hook_module_that_leaves_something_changed_is_broken(registry_of: Any, deed: str, where: str) -> None:
    """In every process that measures, and nothing of it stays; the others are as they were."""
    imports = "import threading, time\nimport torch\n"
    hook = offer().replace("    yield", f"    {deed}\n    yield")
    before = Traces(layers=True)
    registry = registry_of(one=f"{imports}{deed}\n{offer()}" if where == "import" else imports + hook, two=offer("two"))
    assert before.removed() == ""
    assert "draws" not in {thread.name for thread in threading.enumerate()}
    assert LEFT[deed] in reasons(registry)
    assert [entry.spec.name for entry in registry.all("model")] == ["two"]


def test_a_misspelt_hook_gets_a_suggestion(registry_of: Any) -> None:
    """`harness_model` is close to a hook; the message says which."""
    registry = registry_of(bad=offer().replace("harness_models", "harness_model"))
    assert "'harness_model' is no hook" in reasons(registry)
    assert "Did you mean 'harness_models'?" in reasons(registry)


def test_an_unmarked_hook_is_named(registry_of: Any) -> None:
    """Forgetting @hookimpl is said, since pluggy would ignore the function silently."""
    assert "put @hookimpl above it" in reasons(registry_of(bad=offer().replace("@hookimpl", "")))


def test_a_hook_with_unknown_parameters_is_explained(registry_of: Any) -> None:
    """pluggy's own validation is passed on as the reason."""
    source = "from harness import hookimpl\n@hookimpl\ndef harness_models(wrong): return []\n"
    assert "its hooks do not fit" in reasons(registry_of(bad=source))


def test_two_distributions_with_one_name_are_never_picked_between(registry_of: Any) -> None:
    """The error names both, and the qualified name works."""
    registry = registry_of(one=offer(), two=offer())
    with pytest.raises(RequestError, match="one:acme or two:acme"):
        registry.find("model", "acme")
    assert registry.find("model", "two:acme").origin.distribution == "two"


def test_one_distribution_may_not_offer_a_name_twice(registry_of: Any) -> None:
    """The second is listed as broken, the first stays."""
    source = offer() + "    yield ModelSpec('acme', 'math:cos')\n"
    registry = registry_of(one=source)
    assert "offers it twice" in reasons(registry)
    assert registry.find("model", "acme").spec.target == "math:sqrt"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"more": ", contract=99"}, "contract version 99"),
        ({"more": ", contract=0"}, "upgrade the plugin"),
        ({"target": "no_such_module:Name"}, "there is no module 'no_such_module'"),
        ({"target": "math.sqrt"}, "does not have the form"),
        ({"name": "Acme GRU"}, "rename it"),
    ],
)
def test_a_spec_that_cannot_be_used_is_explained(registry_of: Any, change: dict[str, str], said: str) -> None:
    """Contract version, target and name are checked without importing the target."""
    registry = registry_of(bad=offer(**change))
    assert said in reasons(registry)
    assert not list(registry.all("model"))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("name", 3, "its name is 3, where text is expected"),
        ("target", None, "its target is None, where text is expected"),
        ("summary", None, "its summary is None, where text is expected"),
        ("contract", "1", "its contract is '1', where a number is expected"),
    ],
)
def test_a_spec_of_wrong_types_is_explained(registry_of: Any, field: str, value: Any, said: str) -> None:
    """It harms nobody else."""
    spec = "spec = ModelSpec('acme', 'math:sqrt')"
    source = offer().replace(
        "yield ModelSpec", f"{spec}; object.__setattr__(spec, {field!r}, {value!r}); yield spec\n#"
    )
    registry = registry_of(bad=source, good=offer("fine"))
    assert said in reasons(registry)
    assert [entry.spec.name for entry in registry.all("model")] == ["fine"]
    json.dumps(registry.as_dict())


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        ("raise SystemExit(3)", "raised SystemExit: 3"),
        ("raise GeneratorExit", "raised GeneratorExit"),
        ("raise type('Odd', (BaseException,), {})('x')", "raised Odd: x"),
    ],
)
def test_whatever_a_hook_raises_it_is_only_broken(registry_of: Any, deed: str, said: str) -> None:
    """Whether it offers something or listens; only Ctrl-C ends what is going on."""
    registry = registry_of(bad=f"{offer()}    {deed}\n\n@hookimpl\ndef harness_trial_started(trial):\n    {deed}\n")
    assert f"harness_models {said}" in reasons(registry)
    with pytest.warns(UserWarning, match=f"harness_trial_started {said}"):
        registry.notify("harness_trial_started", trial=None)


LISTENS = """
import torch
from harness import hookimpl

@hookimpl
def harness_unknown(kind, name):
    {deed}
    yield "an answer"
"""


def test_a_hook_that_leaves_something_changed_is_warned_about(registry_of: Any) -> None:
    """By name, once it is put back; its answer counts, and the next ones are asked."""
    deed = "torch.set_default_dtype(torch.float64); torch.nn.functional.gelu = torch.nn.functional.relu"
    registry = registry_of(one=LISTENS.format(deed=deed), two=LISTENS.format(deed="assert torch.ones(1).itemsize == 4"))
    before = Traces()
    with pytest.warns(UserWarning, match="one:one: harness_unknown raised .*default dtype.*torch.nn.functional.gelu"):
        answers = registry.notify("harness_unknown", kind="model", name="x")
    assert answers == ["an answer", "an answer"]
    assert before.removed() == ""


def test_what_modules_of_hooks_print_goes_to_standard_error(
    registry_of: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard output is for results."""
    source = "print('imported')\n" + offer() + "    print('offered')\n"
    registry = registry_of(one=source, two=LISTENS.format(deed="print('asked')"))
    registry.notify("harness_unknown", kind="model", name="x")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.split() == ["imported", "offered", "asked"]


def test_asking_for_a_broken_plugin_says_why(registry_of: Any) -> None:
    """The error is the reason, not just 'unknown'."""
    with pytest.raises(RequestError, match="contract version 99"):
        registry_of(bad=offer(more=", contract=99")).find("model", "acme")


def test_an_unknown_name_gets_a_suggestion_and_the_suspects(registry_of: Any) -> None:
    """A near miss is suggested; entry points that did not load are named as possible owners."""
    registry = registry_of(good=offer(name="lstm"), bad="raise ImportError('torch too old')")
    with pytest.raises(RequestError, match="Did you mean 'lstm'") as error:
        registry.find("model", "lstn")
    assert "torch too old" in str(error.value)


def test_a_wrong_kind_of_spec_is_refused(registry_of: Any) -> None:
    """A TaskSpec from harness_models is an error of the plugin, not of the user."""
    source = offer().replace("ModelSpec", "TaskSpec")
    assert "is no ModelSpec" in reasons(registry_of(bad=source))


def test_an_entry_point_without_hooks_is_said(registry_of: Any) -> None:
    """A module that offers nothing is most likely a mistake."""
    assert "it implements no hook" in reasons(registry_of(empty="x = 1"))


class Settings(pydantic.BaseModel):
    width: int
    depth: int


def raised(action: Any) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - what it is, is the test's question
        action()
    return caught.value


def test_an_error_is_described_in_one_line() -> None:
    """All that is wrong, of several things; long messages are cut, however they are written."""
    assert describe(KeyError()) == "KeyError"
    assert describe(ValueError("one\n\n  two")) == "ValueError: one two"
    assert describe(ValueError("x" * 999)) == f"ValueError: {'x' * 300} ..."
    state = describe(raised(lambda: torch.nn.Linear(2, 2).load_state_dict({})))
    assert 'Missing key(s) in state_dict: "weight", "bias"' in state
    assert describe(raised(lambda: Settings.model_validate({"width": "wide"}))) == (
        "ValidationError: width: Input should be a valid integer, unable to parse string as an integer (received "
        "'wide'); depth: Field required (received {'width': 'wide'})"
    )


@pytest.mark.parametrize(
    "action",
    [
        lambda: Settings.model_validate({}),
        lambda: Settings(),  # type: ignore[call-arg]  # the mistake
        lambda: torch.nn.Linear(2, 2)(torch.zeros(3)),
        lambda: json.loads("{"),
    ],
)
def test_an_error_happens_where_the_plugin_called(action: Any) -> None:
    """Not inside pydantic, torch or Python."""
    line = action.__code__.co_firstlineno
    assert place_of_error(raised(action)).endswith(f"test_registry.py:{line}")


def test_an_error_of_the_harness_itself_has_no_place_in_a_plugin() -> None:
    """Better none than a line of our own."""
    error = raised(lambda: default_registry().find("model", "nothing"))
    ours = error.__traceback__.tb_next.tb_next  # type: ignore[union-attr]  # without the frames of this test
    assert place_of_error(error.with_traceback(ours)) == ""
