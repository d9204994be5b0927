"""Every cell gets its record, which is the same however it comes about, and nothing is measured twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from conftest import SHORT, SMALL
from small_runs import MODEL, numbers, run, statuses


def test_a_run_gives_a_record_for_every_cell(tmp_path: Path) -> None:
    """With resolved arguments, parameter count, training outcome, measurements, timing and provenance."""
    results = run(["lstm:hidden=8"], tmp_path, probes=["accuracy", "grad_reach"])
    assert [(r.probe.name, r.stage) for r in results] == [
        ("accuracy", "trained"),
        ("grad_reach", "initial"),
        ("grad_reach", "trained"),
    ]
    record = results.records[0]
    assert record.status == "ok"
    assert record.model.arguments["hidden"] == 8
    assert record.model.distribution == "sequence-harness"
    assert record.model.parameters == 18 * 32 + 4 * 8 * (32 + 8 + 2) + 18 * 9
    assert record.trained is not None
    assert record.trained.steps == SMALL["steps"]
    assert record.data
    assert record.provenance.torch == torch.__version__
    assert results.records[1].trained is None
    assert sorted(p.stem for p in (tmp_path / "records").glob("*.json")) == sorted(r.id for r in results)


def test_the_same_cell_gives_the_same_numbers(tmp_path: Path) -> None:
    """Alone, after others, beside other probes, with another global random state: bit for bit."""
    torch.manual_seed(1)
    alone = run(["lstm:hidden=8"], tmp_path / "a")
    torch.manual_seed(2)
    among = run(["gpt:layers=1", "lstm:hidden=8"], tmp_path / "b", probes=["grad_reach", "accuracy"])
    again = among.filter(model="lstm", probe="accuracy")
    assert numbers(alone.records[0]) == numbers(again.records[0])
    assert alone.records[0].id == again.records[0].id
    assert alone.records[0].data == among.filter(model="gpt").records[0].data


def test_worker_processes_give_the_same_records(tmp_path: Path) -> None:
    """`--jobs 2` changes the wall time and nothing else."""
    options: dict[str, Any] = {"models": ["lstm:hidden=8"], "seeds": 2, "probes": ["accuracy"]}
    one = run(out=tmp_path / "one", jobs=1, **options)
    two = run(out=tmp_path / "two", jobs=2, executor="processes", **options)
    assert [(r.id, numbers(r)) for r in one] == [(r.id, numbers(r)) for r in two]


def test_running_again_measures_nothing_again(tmp_path: Path) -> None:
    """Records are kept, and a second probe reuses the trained model of the first."""
    first = run(["lstm:hidden=8"], tmp_path)
    assert run(["lstm:hidden=8"], tmp_path).records == first.records
    more = run(["lstm:hidden=8"], tmp_path, probes=["accuracy", "grad_reach"])
    assert more.records[0] == first.records[0]
    assert more.records[2].trained == first.records[0].trained  # the seconds too: it was not trained again
    anew = run(["lstm:hidden=8"], tmp_path, fresh=True)
    assert anew.records[0].provenance.finished > first.records[0].provenance.finished


def test_a_reloaded_model_measures_the_same(tmp_path: Path) -> None:
    """A checkpoint holds the whole model, shared parameters included."""
    probes = ["accuracy", "grad_reach"]
    together = run(["gpt:layers=1"], tmp_path / "a", probes=probes)
    run(["gpt:layers=1"], tmp_path / "b", probes=probes[:1])
    apart = run(["gpt:layers=1"], tmp_path / "b", probes=probes)
    assert numbers(together.records[2]) == numbers(apart.records[2])


def test_a_torn_record_is_measured_again(tmp_path: Path) -> None:
    """Half a file counts as nothing."""
    first = run(["lstm:hidden=8"], tmp_path)
    path = tmp_path / "records" / f"{first.records[0].id}.json"
    path.write_text(path.read_text(encoding="utf-8")[:50], encoding="utf-8")
    assert numbers(run(["lstm:hidden=8"], tmp_path).records[0]) == numbers(first.records[0])


def test_results_filter_and_become_rows(tmp_path: Path) -> None:
    """As a library: results are records that can be narrowed down and turned into a data frame's rows."""
    results = run(["lstm:hidden=8", "lstm:hidden=4"], tmp_path, probes=["accuracy"])
    assert len(results.filter(model="lstm")) == 2
    assert [r.model.arguments["hidden"] for r in results.filter(model="lstm:hidden=4")] == [4]
    row = next(row for row in results.rows() if row["measurement"] == "accuracy")
    assert (row["model"], row["seed"], row["x"]) == ("lstm:hidden=8", 0, 1)
    assert "lstm:hidden=8" in str(results)


def test_a_probe_knows_how_much_training_there_was(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """Steps taken over steps that the task and the model class recommend, the model's advice first; 1 before training,
    and for a model that comes with its weights. Also after an early stop, and where a checkpoint is measured later."""
    source = """
    from harness import Scalar
    def budget(subject):
        return [Scalar(name="budget", unit="share", value=subject.budget)]
    budget.stages = ("initial", "trained")
    """
    advised = (
        MODEL.format(construct="pass", forward="pass")
        + """
        recommended_training = {"steps": 40}
    class Whole(M):
        @staticmethod
        def pretrained():
            return True
    """
    )
    path = plugin_file(advised, "m.py")
    probe = plugin_file(source) + ":budget"

    def budgets(model: str, task: str = SHORT, **training: Any) -> list[Any]:
        results = run([model], tmp_path / "run", tasks=[task], probes=[probe], training=SMALL | training)
        return [record.measurements[0].value for record in results]  # type: ignore[union-attr]

    assert budgets("lstm:hidden=4") == [1.0, 20 / 1000]
    assert budgets(f"{path}:M") == [1.0, 20 / 40]
    assert budgets(f"{path}:Whole") == [1.0]
    assert budgets("lstm:hidden=4", "farm_agreement:sentences=100") == [1.0, 20 / (5 * 2)]
    early: dict[str, Any] = {"steps": 1000, "patience": 1, "validate_every": 1, "lr": 10.0}
    assert budgets("lstm:hidden=4", **early)[1] < 0.1
    run(["lstm:hidden=5"], tmp_path / "run")
    assert budgets("lstm:hidden=5") == [1.0, 20 / 1000]


def test_no_second_model_is_kept_in_memory(tmp_path: Path, plugin_file: Callable[..., str]) -> None:
    """Neither a copy nor gradients: a model may take all the memory there is for one."""
    source = """
    import gc
    import torch
    from harness import Scalar
    def copies(subject):
        gc.collect()
        tensors = [each for each in gc.get_objects() if type(each) in (torch.Tensor, torch.nn.Parameter)]
        places = {each.data_ptr() for each in tensors if each.shape == (7 * 4, 7)}
        return [Scalar(name="copies", unit="", value=len(places))]
    copies.stages = ("initial", "trained")
    """
    results = run(["lstm:hidden=7"], tmp_path / "run", probes=[plugin_file(source) + ":copies"])
    assert [record.measurements[0].value for record in results] == [1, 1]  # type: ignore[union-attr]


def test_a_damaged_checkpoint_is_trained_again(tmp_path: Path) -> None:
    """Half a file of parameters is no model; the numbers come out as before."""
    first = run(["gpt:layers=1"], tmp_path)
    (checkpoint,) = (tmp_path / "checkpoints").glob("*.safetensors")
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    (record,) = (tmp_path / "records").glob("*.json")
    record.unlink()
    again = run(["gpt:layers=1"], tmp_path)
    assert statuses(again) == ["ok"]
    assert numbers(again.records[0]) == numbers(first.records[0])
