"""Code that needs no package: a class in a file, its neighbours, its fingerprint, and what is said if it is missing."""

import pickle
import sys
from pathlib import Path

import pytest
from code_files import Write, definition, digest, plugin, value
from code_files import files as files  # the fixture

from harness.errors import PluginError, RequestError
from harness.sources import read_anew

EAGER = """
import neighbour
from neighbour import VALUE

class M:
    def value(self):
        return neighbour.VALUE, VALUE
"""

LATE = """
class M:
    def value(self):
        import neighbour
        from neighbour import VALUE
        return neighbour.VALUE, VALUE
"""

BY_NAME = """
import importlib
neighbour = importlib.import_module("neighbour")

class M:
    def value(self):
        from importlib import import_module
        return neighbour.VALUE, import_module("neighbour").VALUE
"""

RELATIVE = """
class M:
    def value(self):
        from . import neighbour
        from .neighbour import VALUE
        return neighbour.VALUE, VALUE
"""


@pytest.mark.parametrize("source", [EAGER, LATE, BY_NAME, RELATIVE])
def test_a_file_imports_its_neighbours(files: Write, source: str) -> None:
    """At once or when it is called, as in a script; nothing of it is left for other code to import by accident."""
    files("VALUE = 5", "neighbour.py")
    path = files(source, "plugin.py")
    assert value(path) == (5, 5)
    assert str(Path(path).parent) not in sys.path
    assert "neighbour" not in sys.modules


@pytest.mark.parametrize("source", [EAGER, LATE, BY_NAME])
def test_files_of_two_folders_have_neighbours_of_one_name(files: Write, source: str) -> None:
    """Two versions of a model can be compared in one run, whichever was loaded or called first."""
    paths = []
    for folder in ("one", "two"):
        files(f"VALUE = {folder!r}", f"{folder}/neighbour.py")
        paths.append(files(source, f"{folder}/plugin.py"))
    models = [plugin(f"{path}:M").construct() for path in paths]
    assert [model.value()[0] for model in (*models, *reversed(models))] == ["one", "two", "two", "one"]


def test_neighbours_have_neighbours(files: Write) -> None:
    """A folder with an `__init__.py`, a folder without one, and a neighbour that imports another one when called."""
    files("from parts.inner import two\nfrom plain.inner import three\n\ndef all():\n    import last\n"
          "    return two() + three() + last.FOUR", "neighbour.py")  # fmt: skip
    files("", "parts/__init__.py")
    files("def two():\n    from parts import other\n    return other.TWO", "parts/inner.py")
    files("TWO = 2", "parts/other.py")
    files("def three():\n    import plain.other\n    return plain.other.THREE", "plain/inner.py")
    files("THREE = 3", "plain/other.py")
    files("FOUR = 4", "last.py")
    path = files("class M:\n    def value(self):\n        import neighbour as n\n        return n.all()", "plugin.py")
    assert value(path) == 9


def test_every_way_to_import_gives_the_names_that_it_gives_in_a_script(files: Write) -> None:
    """Inside a folder of the folder, with other names, several at once, and in a circle."""
    files("import plugin\nimport parts.inner as inner\nSELF = plugin.HERE", "parts/circle.py")
    files("VALUE = 2", "parts/inner.py")
    files("VALUE = 1", "first.py")
    source = """
    HERE = 3
    import math, first as one, parts.inner, parts.inner as two
    from parts import circle, inner
    import parts.circle
    class M:
        def value(self):
            same = parts.inner is two is inner is circle.inner and parts.circle is circle
            return one.VALUE, two.VALUE, circle.SELF, same, math.pi > 3
    """
    assert value(files(source, "plugin.py")) == (1, 2, 3, True, True)


def test_objects_of_files_can_be_pickled(files: Write) -> None:
    """Their classes are found by name."""
    files("class Part: ...", "neighbour.py")
    path = files("import neighbour\nclass M:\n    def __init__(self): self.part = neighbour.Part()", "plugin.py")
    made = plugin(f"{path}:M").construct()
    copied = pickle.loads(pickle.dumps(made))
    assert type(copied) is type(made)
    assert type(copied.part) is type(made.part)


def test_a_neighbour_never_stands_in_for_python_or_the_harness(files: Write) -> None:
    """`copy.py` is a good name for a task; `import copy` still means Python's."""
    files("raise RuntimeError", "copy.py")
    files("raise RuntimeError", "harness.py")
    path = files("import copy\nfrom harness import Task\nclass M:\n    def value(self): return Task, copy", "plugin.py")
    from harness import Task

    assert value(path)[0] is Task


def test_a_module_that_is_found_anyway_is_not_loaded_twice(
    files: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file at the root of an installed project imports the project's own classes, not copies of them."""
    files("class Layer: ...", "project_of_mine/__init__.py")
    path = files("from project_of_mine import Layer\nclass M:\n    def value(self): return Layer", "plugin.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    import project_of_mine  # type: ignore[import-not-found]

    assert value(path) is project_of_mine.Layer


def test_two_files_of_a_folder_share_it(files: Write) -> None:
    """A file that is asked for, and imported by another one, is one module."""
    first = files("class M:\n    pass", "first.py")
    second = files("from first import M", "second.py")
    assert definition(f"{second}:M").code is definition(f"{first}:M").code


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("./no_such.py:M", "there is no file"),
        ("./no_such.py", "there is no file"),
        ("no.such.module:M", "there is no model"),
        ("{folder}/nets.py:Modl", "there is no 'Modl' in .*nets.py'. Did you mean 'Model'\\? It has: Model, other."),
        ("{folder}/nets.py", "for example .*nets.py:Model. It has: Model, other."),
        ("{folder}/nets.py:", "for example .*nets.py:Model. It has: Model, other."),
        ("{folder}/nets:Model", "if the file is meant, .*/nets.py:Model"),
        ("{folder}/nets.py:sys", "'sys' in .* is a module, not a class or function. It has: Model, other."),
        ("{folder}/empty.py:Model", "there is no 'Model' in .*. It has: no class or function."),
        ("decimal:Decimale", "Did you mean 'Decimal'"),
    ],
)
def test_code_that_is_not_there_is_a_wrong_request(files: Write, tmp_path: Path, name: str, said: str) -> None:
    """The user's slip, not a plugin's failure; what the file has is listed."""
    files("import sys\n\nclass Model: ...\n\ndef other(): ...\n\nclass _Hidden: ...", "nets.py")
    files("", "empty.py")
    with pytest.raises(RequestError, match=said):
        definition(name.format(folder=tmp_path))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("1 / 0", r"ZeroDivisionError: division by zero \(at .*plugin.py:1\)"),
        ("import math\nmath.no_such", r"AttributeError: module 'math' has no attribute 'no_such' \(at .*plugin.py:2\)"),
        ("class M(", "SyntaxError"),
        ("import no_such_module", r"No module named 'no_such_module' \(at .*plugin.py:1\)"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
    ],
)
def test_code_that_does_not_load_is_the_plugins_fault(files: Write, source: str, said: str) -> None:
    """An exception on import names the plugin, the cause and the line."""
    path = files(source, "plugin.py")
    with pytest.raises(PluginError, match=said) as error:
        definition(f"{path}:M")
    assert "plugin.py:M" in str(error.value)


def test_the_digest_follows_the_source(files: Write) -> None:
    """Any change in the file, or in a module of its own that it imports, gives another digest."""
    digests = []
    for folder, body, helper in (("a", "x = 1", "y = 1"), ("b", "x = 2", "y = 1"), ("c", "x = 1", "y = 2")):
        files(helper, f"{folder}/helper.py")
        digests.append(digest(files(f"import helper\nclass M: {body}\n", f"{folder}/plugin.py")))
    assert len(set(digests)) == 3


@pytest.mark.parametrize(
    "how",
    [
        "import helper",
        "from helper import x",
        "from . import helper",
        "from .helper import x",
        "importlib.import_module('helper')",
        "call(lambda: importlib.import_module('helper'))",
        "if self: import helper",
        "for _ in []: pass\n        else: import helper",
        "try: pass\n        except Exception: import helper",
        "try: pass\n        finally: import helper",
        "match self:\n            case None:\n                with self: import helper",
    ],
)
def test_the_digest_sees_imports_that_come_later(files: Write, how: str) -> None:
    """An import inside a function counts before it has run, so that a digest does not depend on what ran before."""

    def digest_with(folder: str, helper: str) -> str:
        files(helper, f"{folder}/helper.py")
        return digest(files(f"class M:\n    def forward(self):\n        {how}\n", f"{folder}/plugin.py"))

    assert digest_with("one", "x = 1") != digest_with("two", "x = 2")
    assert digest_with("three", "x = 1") == digest_with("four", "x = 1")


@pytest.mark.parametrize(
    "how", ["import pkg.sub", "from pkg.sub import x", "from pkg import sub", "importlib.import_module('pkg.sub')"]
)
def test_the_digest_sees_the_packages_of_what_is_imported(files: Write, how: str) -> None:
    """Python imports them before it, and they may decide what it is."""

    def digest_with(folder: str, package: str) -> str:
        files(package, f"{folder}/pkg/__init__.py")
        files("x = 1", f"{folder}/pkg/sub.py")
        return digest(files(f"class M:\n    def forward(self):\n        {how}\n", f"{folder}/plugin.py"))

    assert digest_with("one", "scale = 1") != digest_with("two", "scale = 2")
    assert digest_with("three", "scale = 1") == digest_with("four", "scale = 1")


@pytest.mark.parametrize("how", ["from ..base import VALUE", "from .. import base\nVALUE = base.VALUE"])
def test_a_package_beside_a_file_may_look_back_into_the_folder(files: Write, how: str) -> None:
    """From its own folder into the file's, which is a package without a name; the digest follows."""
    files("", "one/inner/__init__.py")
    files(how, "one/inner/layers.py")
    name = files("from .inner.layers import VALUE\nclass M:\n    value = VALUE\n", "one/m.py") + ":M"
    found = {}
    for number in (1, 2):
        files(f"VALUE = {number}\n", "one/base.py")
        read_anew()
        model = plugin(name)
        found[number] = model.use.digest, vars(model.definition.code)["value"]
    assert (found[1][1], found[2][1]) == (1, 2)
    assert found[1][0] != found[2][0]
