"""An environment with the wheel of the harness, as a user would have it, made once for all tests."""

import json
import os
import shlex
import subprocess
import sysconfig
import venv
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@cache
def environment(folder: Path) -> dict[str, str]:
    """Its variables: the wheel is installed, dependencies are borrowed, and pip needs no network.

    Args:
        folder: where to make it; `tmp_path_factory.getbasetemp()`.
    """
    pytest.importorskip("hatchling", reason="comes with the dev extra")
    pytest.importorskip("editables", reason="comes with the dev extra")
    folder = folder / "environment"
    venv.create(folder, with_pip=False)
    binaries = folder / "bin"
    packages = next((folder / "lib").glob("python*")) / "site-packages"
    borrowed = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), sysconfig.get_path("purelib")]
    (packages / "borrowed.pth").write_text("\n".join(borrowed) + "\n", encoding="utf-8")
    (binaries / "pip").write_text(f'#!/bin/sh\nexec "{binaries}/python" -m pip "$@"\n', encoding="utf-8")
    (binaries / "pip").chmod(0o755)
    settings = {
        **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads this one upside down: off
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    run(f"pip install -q {shlex.quote(str(ROOT))}", folder, settings)  # by way of a wheel
    return settings


def run(command: str, folder: Path, settings: dict[str, str]) -> str:
    """What a command, written as in a shell, prints."""
    done = subprocess.run(shlex.split(command), cwd=folder, env=settings, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


ONE_PROCESS = """
import json, shlex, site, subprocess, sys
from click.testing import CliRunner
from harness.cli import main
from harness import registry

outputs = []
for command in json.load(sys.stdin):
    program, *words = shlex.split(command)
    if program == "harness":
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, (command, result.output, result.exception)
        outputs.append(result.stdout)
    else:
        outputs.append(subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout)
        site.addsitedir(site.getsitepackages()[0])  # sees what was installed, as the next process would
        registry._installed.clear()
        registry.default_registry.cache_clear()
print(json.dumps(outputs))
"""


def run_in_one_process(commands: Sequence[str], folder: Path, settings: dict[str, str]) -> list[str]:
    """What each command prints. Those of the harness share a process: importing torch takes longer than they do."""
    python, asked = ["python", "-c", ONE_PROCESS], json.dumps(commands)
    done = subprocess.run(python, cwd=folder, env=settings, input=asked, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    outputs: list[str] = json.loads(done.stdout.splitlines()[-1])
    return outputs
