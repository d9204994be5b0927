"""Every probe looks at one model, whoever looked before, and whatever the caller has set."""

from pathlib import Path

import pytest
import torch
from small_runs import numbers

from harness.settings import Settings
from within_trial.sources import LOOK, PROBES, Write, model_source, run, vandal


@pytest.mark.parametrize(
    ("forward", "status"),
    [
        ("if self.training: self.shift = self.shift + 0.1", "failed"),
        ("if self.training: self.scale += 0.1", "failed"),
        ("self.shift = torch.randn(8, generator=self.own)", "ok"),
    ],
)
def test_every_probe_looks_at_the_model_that_is_kept(
    tmp_path: Path, plugin_file: Write, forward: str, status: str
) -> None:
    """Whoever is asked for later, or after a probe that has spoilt it, gets the model of the checkpoint; so all do. One
    that has learned something else fails, and one that is different at each call does not."""
    construct = "self.own = torch.Generator().manual_seed(3)"
    name = plugin_file(model_source(construct=construct, forward=forward)) + ":M"
    spoils = plugin_file(PROBES + vandal("p", "model.out.weight.data.zero_()"), "p.py") + ":p"
    together = run(name, tmp_path / "one", ["accuracy", spoils, "grad_reach"], stages="trained")
    run(name, tmp_path / "two", ["accuracy"], stages="trained")
    apart = run(name, tmp_path / "two", ["accuracy", "grad_reach"], stages="trained")
    for probe in ("accuracy", "grad_reach"):
        records = [record for results in (together, apart) for record in results if record.probe.name == probe]
        assert [record.status for record in records] == 2 * [status]
        assert len({numbers(record) for record in records}) == 1
        assert all("self.register_buffer" in record.error.message for record in records if record.error)


def test_training_does_not_depend_on_who_looked_before(tmp_path: Path, plugin_file: Write, folder: Path) -> None:
    """Not even where the model counts its calls, and learns accordingly."""
    forward = "self.calls += 1\n        self.scale = 1.5 + self.calls"
    name = plugin_file(model_source(construct="self.calls = 0", forward=forward)) + ":M"
    source = "def late(subject):\n    yield from look(subject, turn=0)\n"
    late = plugin_file(PROBES + LOOK + source, "late.py") + ":late"
    probes = [f"{folder}/look.py:look:turn=0"]
    run(name, tmp_path / "one", [late])
    run(name, tmp_path / "two", [*probes, late])
    one, two = ([*(tmp_path / each / "checkpoints").iterdir()] for each in ("one", "two"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_a_trial_does_not_depend_on_the_callers_settings(
    tmp_path: Path, folder: Path, clean: dict[tuple[int, str], str]
) -> None:
    """Those of a notebook, for example, which has them again afterwards. A record says with which it was measured."""
    before = Settings.now()
    try:
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.set_float32_matmul_precision("medium")
        chosen = Settings.now()
        results = run(f"{folder}/honest.py:M", tmp_path / "run", [f"{folder}/look.py:look:turn=-1"])
        assert Settings.now() == chosen
    finally:
        before.put_back()
    assert {(0, record.stage): numbers(record) for record in results} == {
        key: found for key, found in clean.items() if key[0] == 0
    }
    for record in results:
        settings = record.provenance.settings
        assert settings["dtype"] == "float32"
        assert settings["float32_matmul_precision"] == "highest"
        assert settings["cudnn_tf32"] == "off"
