"""What a probe leaves changed reaches no other one; it is put back, and the probe is named."""

from pathlib import Path

import pytest
from small_runs import numbers

from harness.results import Results
from harness.traces import Traces
from within_trial.deeds import BODIES, GUILTY, HARMLESS
from within_trial.sources import LEFT, PROBES, Write, run, vandal


@pytest.fixture(scope="module")
def after_all(folder: Path) -> Results:
    """Two trials in which an innocent probe has its turn after each of the others."""
    source = PROBES + "\n".join(vandal(f"v{place}", body) for place, body in enumerate(BODIES))
    (folder / "vandals.py").write_text(source, encoding="utf-8")
    before = Traces()
    turns = range(len(BODIES))
    probes = [each for turn in turns for each in (f"{folder}/vandals.py:v{turn}", f"{folder}/look.py:look:turn={turn}")]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        results = run(f"{folder}/honest.py:M", folder / "run", probes, seeds=2, executor="local")
    assert not before.settings.changes()
    assert before.removed() == ""
    return results


@pytest.mark.parametrize("body", BODIES)
def test_what_one_probe_does_reaches_no_other_one(
    after_all: Results, clean: dict[tuple[int, str], str], body: str
) -> None:
    """The next one measures, bit for bit, what it measures alone, in this trial and in the next one; so does the model
    learn, whatever was done before training."""
    looks = [record for record in after_all if record.probe.label.endswith(f"look:turn={BODIES.index(body)}")]
    assert {(record.seed, record.stage): numbers(record) for record in looks} == clean


@pytest.mark.parametrize("body", BODIES)
def test_who_leaves_something_changed_fails_and_is_named(after_all: Results, body: str) -> None:
    """With what was changed. What is each probe's own, or is put back without a word, is no failure."""
    name = f"vandals.py:v{BODIES.index(body)}"
    records = [record for record in after_all if record.probe.name.endswith(name)]
    assert [record.status for record in records] == 4 * ["failed" if body in GUILTY else "ok"]
    for record in records if body in GUILTY else []:
        assert record.error is not None
        assert name in record.error.message
        assert GUILTY[body] in record.error.message


@pytest.mark.parametrize(
    ("top", "said"),
    [
        ("nn.Dropout.forward = lambda self, x: x * 0", "Dropout.forward replaced"),
        (
            "from harness_plugins.tasks.recall import Recall; Recall.loss = lambda self, *given: 0",
            "Recall.loss replaced",
        ),
        ("from harness_plugins.tasks.recall import Recall; Recall.train = Recall.validation", "Recall.train replaced"),
    ],
)
def test_a_probe_that_replaces_a_method_when_it_is_imported_is_broken(
    tmp_path: Path, plugin_file: Write, folder: Path, clean: dict[tuple[int, str], str], top: str, said: str
) -> None:
    """Also one of a layer, or of a plugin: training comes after the import, and is as it was."""
    probe = plugin_file(f"{PROBES}\n{top}\n" + vandal("p", "pass"), "p.py") + ":p"
    results = run(f"{folder}/honest.py:M", tmp_path / "run", [probe, f"{folder}/look.py:look:turn=0"])
    broken = [record for record in results if "look" not in record.probe.name]
    assert all(record.error and said in record.error.message for record in broken), broken
    looks = {(0, record.stage): numbers(record) for record in results if "look" in record.probe.name}
    assert looks == {key: found for key, found in clean.items() if key[0] == 0}


@pytest.mark.parametrize("body", [body for body in HARMLESS if "subject.scores(" in body])
def test_scores_are_shared_only_where_nobody_intervenes(
    tmp_path: Path, plugin_file: Write, folder: Path, clean: dict[tuple[int, str], str], body: str
) -> None:
    """A probe that asks for them first, while a hook of its own is at work, changes them for itself alone."""
    probe = plugin_file(PROBES + vandal("p", body), "p.py") + ":p"
    results = run(f"{folder}/honest.py:M", tmp_path / "run", [probe, f"{folder}/look.py:look:turn=0"])
    assert [record.error for record in results if record.error] == []
    looks = {(0, record.stage): numbers(record) for record in results if "look" in record.probe.name}
    assert looks == {key: found for key, found in clean.items() if key[0] == 0}


@pytest.mark.parametrize("end", ["raise Skip('not here')", "1 / 0"])
def test_who_gives_up_halfway_is_cleaned_up_after(
    tmp_path: Path, plugin_file: Write, folder: Path, clean: dict[tuple[int, str], str], end: str
) -> None:
    """Settings, functions and model are put back, also where the probe raised."""
    body = f"{LEFT}\nF.gelu = F.relu\nmodel.register_forward_hook(lambda module, args, output: output * 0)\n{end}"
    probe = plugin_file(PROBES + vandal("p", body), "p.py") + ":p"
    before = Traces()
    results = run(f"{folder}/honest.py:M", tmp_path / "run", [probe, f"{folder}/look.py:look:turn=0"])
    assert before.removed() == ""
    assert [record.status for record in results] == ["failed", "failed", "ok", "ok"]
    assert {(0, record.stage): numbers(record) for record in results if record.status == "ok"} == {
        key: found for key, found in clean.items() if key[0] == 0
    }
