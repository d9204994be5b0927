"""Two runs side by side: what is compared with what, what may be said of it, what has changed, what is in one only."""

import csv
import io
import json
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from comparisons import LEVELS, compared, run, score, stored
from record_factory import curve, record

import harness
from harness.cli import main
from harness.comparing import Comparison
from harness.comparing.differences import Difference, luck
from harness.errors import RequestError
from harness.measurements import Matrix, Measurement, Pattern, Scalar
from harness.results import Results
from harness.schema import Record
from harness.store import RunDirectory
from harness.suites import Experiment, Request, Suite

FIXTURES = Path(__file__).parent / "fixtures"


def seeds(values: Sequence[float], *, error: float | None = None, good: bool = True, **more: Any) -> list[Record]:
    """A record for each value; unless `good` is False, a curve in the same unit tells that more is better."""
    scale: list[Measurement] = [curve([0.5], [1], name="scale", levels=LEVELS)] if good else []
    return [record(score(value, error), *scale, seed=seed, **more) for seed, value in enumerate(values)]


def only(comparison: Comparison, measurement: str = "score") -> Difference:
    """The one number of that name."""
    (found,) = [row for row in comparison.rows if row.measurement == measurement]
    return found


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ([0.5, 0.4, 0.6], [0.7, 0.5, 0.9], "better"),
        ([0.7, 0.5, 0.9], [0.5, 0.4, 0.6], "worse"),
        ([0.5, 0.4, 0.6], [0.7, 0.5, 0.5], "no clear difference"),
        ([0.5, 0.4, 0.6], [0.7, 0.5, 0.6], "no clear difference"),
        ([0.5, 0.4, 0.6], [0.5, 0.4, 0.6], "identical"),
        ([0.5, NAN, INF], [0.5, NAN, INF], "identical"),
        ([0.5, 0.4, 0.6], [0.5 + 1e-9, 0.4 + 1e-9, 0.6 + 1e-9], "no clear difference"),
        ([0.5, 0.4], [0.7, 0.5], "undecided"),
        ([0.5], [0.9], "undecided"),
        ([0.5], [0.5], "identical"),
        ([0.5, 0.4, 0.6], [0.7, NAN, 0.9], "not comparable"),
        ([20.0, 20.0, 20.0], [40.0, INF, INF], "better"),
        ([-INF, 20.0, INF], [INF, 40.0, INF], "no clear difference"),
        ([0.5] * 9, [0.6] * 8 + [0.4], "better"),
        ([0.5] * 8, [0.6] * 7 + [0.4], "no clear difference"),
        ([0.9] * 9, [0.91] * 8 + [0.1], "no clear difference"),  # most seeds gain a little, and the mean falls
    ],
)
def test_the_verdict_is_what_seeds_agree_on(a: list[float], b: list[float], verdict: str) -> None:
    """From three seeds on, if all differ in one direction, or of many seeds nearly all; never from fewer."""
    assert only(compared(seeds(a), seeds(b))).verdict == verdict


@pytest.mark.parametrize(("b", "verdict"), [((0.7, 0.5, 0.9), "better"), ((0.4, 0.3, 0.5), "worse")])
def test_which_way_is_good_is_known_where_a_task_has_one_condition(b: Sequence[float], verdict: str) -> None:
    """Where there is no curve, the number itself says what it is to be compared with."""

    def measured(values: Sequence[float]) -> list[Record]:
        return [record(score(value, levels=LEVELS), seed=seed) for seed, value in enumerate(values)]

    assert only(compared(measured((0.5, 0.4, 0.6)), measured(b))).verdict == verdict


def test_differences_are_those_of_the_same_seed() -> None:
    """The median of the differences, not the difference of the medians; seeds of one run alone take no part."""
    found = compared(seeds([0.1, 0.5, 0.9]), seeds([0.8, 0.6, 1.0, 0.0]))
    row = only(found)
    assert row.differences == pytest.approx((0.7, 0.1, 0.1))
    assert row.summary.median == pytest.approx(0.1)
    assert (row.median_a, row.median_b) == (0.5, 0.8)
    assert row.ways == (3, 0, 0)
    assert [(each.lacks, each.seeds) for each in found.only_b] == [("seeds", (3,))]


def test_a_difference_within_the_errors_is_none() -> None:
    """Two standard errors of the mean difference could be the choice of examples."""
    a, b = [0.5, 0.4, 0.6], [0.52, 0.43, 0.61]
    assert only(compared(seeds(a, error=0.02), seeds(b, error=0.02))).verdict == "no clear difference"
    assert only(compared(seeds(a, error=0.001), seeds(b, error=0.001))).verdict == "better"


def test_luck_is_that_of_a_coin() -> None:
    """All of three agree in one of four cases."""
    assert luck(3, 3) == 0.25
    assert luck(8, 9) == pytest.approx(2 * 10 / 512)
    assert luck(2, 4) == 1


@pytest.mark.parametrize(
    ("measurement", "probe", "up"),
    [
        (lambda value: score(value), "mine", "higher"),
        (lambda value: Scalar(name="time", unit="ms", value=value), "speed", "worse"),
        (lambda value: Scalar(name="memory", unit="MiB", value=value), "speed", "worse"),
        (lambda value: Scalar(name="longest_good", unit="tokens", value=value), "position_extrapolation", "better"),
        (lambda value: curve([value], [1], levels=LEVELS), "accuracy", "better"),
        (lambda value: curve([value], [1], levels=LEVELS), "edge_cut", "higher"),
        (lambda value: curve([value], [1], unit="nats", levels={"chance": 2.0, "best": 0.0}), "accuracy", "worse"),
        (lambda value: curve([value], [1], unit="nats", levels={"best": 0.0}), "accuracy", "worse"),
        (lambda value: curve([value], [1], unit="nats", levels={"chance": 2.0}), "accuracy", "higher"),
    ],
)
def test_which_way_is_good_is_told_where_it_is_known(
    measurement: Callable[[float], Measurement], probe: str, up: str
) -> None:
    """Better and worse are of scores, times and sizes; what intervenes gives evidence, which is neither."""
    a = [record(measurement(0.1), probe=probe, seed=seed) for seed in range(3)]
    b = [record(measurement(0.2), probe=probe, seed=seed) for seed in range(3)]
    (row,) = compared(a, b).rows
    assert row.verdict == up


def test_every_place_of_a_curve_and_a_matrix_is_compared() -> None:
    """Also repeated ones; places of one run alone, and examples to look at, are not."""
    matrix = Matrix(
        name="m", unit="", values=[[1.0, 2.0]], rows=["r"], columns=["x", "y"], row_label="", column_label=""
    )
    pattern = Pattern(name="p", tokens=["t"], heads=["h"], weights=[[[1.0]]])
    a = [record(curve([0.1, 0.2, 0.3], ["the", "cat", "the"]), matrix, pattern, seed=seed) for seed in range(3)]
    b = [record(curve([0.2, 0.2, 0.4], ["the", "dog", "the"]), matrix, pattern, seed=seed) for seed in range(3)]
    rows = compared(a, b).rows
    assert [(row.measurement, row.place.called, row.place.nth, row.verdict) for row in rows] == [
        ("accuracy", "the", 0, "higher"),
        ("accuracy", "the", 1, "higher"),
        ("m", "r, x", 0, "identical"),
        ("m", "r, y", 0, "identical"),
    ]


def test_the_validation_loss_is_compared_once_for_each_model_and_task() -> None:
    """Whatever the number of probes; lower is better."""
    a = [record(probe=probe, seed=seed, loss=1.0) for probe in ("accuracy", "grad_reach") for seed in range(3)]
    b = [record(probe=probe, seed=seed, loss=0.5) for probe in ("accuracy", "grad_reach") for seed in range(3)]
    row = only(compared(a, b), "validation_loss")
    assert (row.cell.probe, row.verdict) == ("training", "better")


def test_what_must_not_be_compared_is_not() -> None:
    """Another unit; other data of another task; times of another machine. Other examples of the same task may be."""
    a = seeds([0.1, 0.2, 0.3], data="x")
    slow = [record(Scalar(name="score", unit="ms", value=1.0 + seed), seed=seed) for seed in range(3)]
    fast = [
        each.model_copy(update={"provenance": each.provenance.model_copy(update={"device": "another"})})
        for each in (record(Scalar(name="score", unit="ms", value=0.5 + seed), seed=seed) for seed in range(3))
    ]
    other = seeds([0.2, 0.3, 0.4], data="y")
    changed = [each.model_copy(update={"task": each.task.model_copy(update={"digest": "d2"})}) for each in other]
    assert only(compared(a, slow)).verdict == "not comparable"
    assert only(compared(slow, fast)).why == "times of different machines"
    assert only(compared(a, changed)).verdict == "not comparable"
    assert only(compared(a, other)).verdict == "better"


@pytest.mark.parametrize("more", [{"pretrained": True}, {"warnings": ["weights do not depend on the seed"]}])
def test_seeds_that_are_no_repetitions_decide_nothing(more: dict[str, Any]) -> None:
    """However many there are."""
    row = only(compared(seeds([0.1] * 5, **more), seeds([0.9] * 5, **more)))
    assert (row.verdict, row.why) == ("undecided", "seeds are no repetitions")


def named(each: Record, **more: Any) -> Record:
    """With something else about its model."""
    return each.model_copy(update={"model": each.model.model_copy(update=more)})


def in_file(folder: str, label: str = "./my.py:Net", **more: Any) -> list[Record]:
    """Three seeds of a model in a file of that folder."""
    target = f"{folder}/my.py:Net"
    return [
        named(each, name=label.partition(",")[0], target=target, **more)
        for each in seeds([0.1, 0.2, 0.3], model=label, distribution="")
    ]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (seeds([0.1] * 3), seeds([0.2] * 3, digest="d2")),
        (seeds([0.1] * 3), seeds([0.2] * 3, distribution="mine")),
        (seeds([0.1] * 3), seeds([0.2] * 3, training={"steps": 5}, examples=9)),
        (in_file("/old"), in_file("/new")),
        (in_file("/old"), in_file("/new", "src/my.py:Net")),
        ([named(each, alias="ours") for each in seeds([0.1] * 3)], in_file("/new", alias="ours")),
        (seeds([0.1] * 3, model="gpt", defaults={"layers": 2}), seeds([0.1] * 3, model="gpt:layers=2")),
    ],
    ids=["other code", "another package", "other settings", "moved", "another path", "one alias", "said in full"],
)
def test_a_model_is_the_same_if_it_was_asked_for_in_the_same_words(a: list[Record], b: list[Record]) -> None:
    """Ids differ with whatever has changed."""
    found = compared(a, b)
    assert only(found).seeds == (0, 1, 2)
    assert not found.only_a
    assert not found.only_b


def test_ways_of_training_are_paired_by_what_tells_them_apart() -> None:
    """The learning rate here, since both runs vary it; the steps have changed for all. In the order of reports."""
    a = [each for lr in (1e-2, 1e-3) for each in seeds([lr] * 3, training={"lr": lr})]
    b = [each for lr in (1e-3, 1e-2, 1e-1) for each in seeds([2 * lr] * 3, training={"lr": lr, "steps": 7})]
    found = compared(a, b)
    assert [(row.cell.way, row.a[0], row.b[0]) for row in found.rows if row.measurement == "score"] == [
        ("lr=0.001", 0.001, 0.002),
        ("lr=0.01", 0.01, 0.02),
    ]
    assert [(each.cell.way, each.lacks) for each in found.only_b] == [("lr=0.1", "cell")]


def test_a_pair_says_which_is_which() -> None:
    """As a mapping, or as text, whose names may have `=` in their arguments; for tasks as well."""
    a = seeds([0.1] * 3, model="gpt:layers=2") + seeds([0.5] * 3, model="lstm")
    b = seeds([0.2] * 3, model="gpt:layers=4", task="recall") + seeds([0.5] * 3, model="lstm")
    assert [row.cell.model for row in compared(a, b).rows if row.measurement == "score"] == ["lstm"]
    for pair in ({"gpt:layers=2": "gpt:layers=4"}, ["gpt:layers=2=gpt:layers=4"]):
        models = [row.cell.model for row in compared(a, b, pair=pair).rows if row.measurement == "score"]
        assert models == ["gpt:layers=2 -> gpt:layers=4", "lstm"]
    other = seeds([0.2] * 3, model="lstm", task="recall:train_max=9")
    found = compared(a, other, pair={"recall": "recall:train_max=9"})
    assert {row.cell.task for row in found.rows} == {"recall -> recall:train_max=9"}


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ({"ltsm": "lstm"}, "'lstm'"),
        ({"lstm": "elman"}, "gru"),
        ({"lstm": "recall"}, "no two models"),
        ({"gpt": "lstm"}, "gpt:layers=1, gpt:layers=2"),
        (["lstm=lstm", "lstm=gru"], "twice"),
        (["lstm"], "OLD=NEW"),
    ],
)
def test_a_pair_of_what_is_not_there_is_refused(pair: Any, said: str) -> None:
    """With what there is."""
    a = [each for model in ("lstm", "gpt:layers=1", "gpt:layers=2") for each in seeds([0.1], model=model)]
    b = [each for model in ("lstm", "gru") for each in seeds([0.1], model=model)]
    with pytest.raises(RequestError) as refused:
        compared(a, b, pair=pair)
    assert said in str(refused.value)


def test_changes_are_what_differs_and_nothing_else() -> None:
    """Code, arguments, size, settings, versions, machine; each once."""
    a = seeds([0.1] * 3, defaults={"width": 32}, training={"steps": 100}) + seeds([0.1] * 3, model="gpt")
    b = seeds([0.1] * 3, defaults={"width": 64}, digest="d2", parameters=9, training={"steps": 200})
    b += seeds([0.1] * 3, model="gpt")
    surroundings = {"torch": "2.14", "device": "another", "settings": {"dtype": "float64"}, "core": "c2"}
    b = [each.model_copy(update={"provenance": each.provenance.model_copy(update=surroundings)}) for each in b]
    a = [
        each.model_copy(update={"provenance": each.provenance.model_copy(update={"settings": {"dtype": "float32"}})})
        for each in a
    ]
    found = {(each.called, each.what): (each.a, each.b) for each in compared(a, b).changes}
    assert found == {
        ("model lstm", "code (digest)"): ("d1", "d2"),
        ("model lstm", "width"): ("32", "64"),
        ("model lstm", "parameters"): ("26,834", "9"),
        ("training of lstm", "steps"): ("100", "200"),
        ("software", "torch"): ("2.13", "2.14"),
        ("machine", "processor"): ("cpu", "another"),
        ("torch settings", "dtype"): ("float32", "float64"),
    }
    assert compared(a, list(a)).changes == []


def test_arguments_that_one_of_them_lacks_are_told_together() -> None:
    """Models that are paired may have nothing in common."""
    a, b = (seeds([0.1] * 3, model=name, defaults=own) for name, own in (("x", {"p": 1, "q": 2}), ("y", {"q": 2})))
    found = compared(a, b, pair={"x": "y"}).changes
    assert [(each.what, each.a, each.b) for each in found] == [("further arguments", "p=1", "none")]


def test_what_could_not_be_measured_is_told_with_its_reason() -> None:
    """Of either run; cells that both could not measure too."""
    a = [record(failed="it broke"), record(score(0.1), seed=1), record(skipped="no attention", probe="edge_cut")]
    b = [record(score(0.1)), record(failed="worse", seed=1), record(skipped="no attention", probe="edge_cut")]
    found = compared(a, b)
    assert [(each.cell.probe, each.seeds, each.a, each.b) for each in found.outcomes] == [
        ("accuracy", (0,), "failed: RuntimeError: it broke", "ok"),
        ("accuracy", (1,), "ok", "failed: RuntimeError: worse"),
        ("edge_cut", (0,), "skipped: no attention", "skipped: no attention"),
    ]
    assert "it broke" in str(found)


def test_what_one_run_has_alone_is_told_with_what_the_other_lacks() -> None:
    """A model, a probe, or only the cell."""
    a = seeds([0.1]) + seeds([0.1], model="gru") + seeds([0.1], probe="mine")
    b = seeds([0.1]) + seeds([0.1], model="gpt") + seeds([0.1], stage="initial")
    found = compared(a, b)
    assert [(each.cell.model, each.cell.probe, each.lacks) for each in found.only_a] == [
        ("gru", "accuracy", "model"),
        ("lstm", "mine", "probe"),
    ]
    assert [(each.cell.model, each.cell.stage, each.lacks) for each in found.only_b] == [
        ("gpt", "trained", "model"),
        ("lstm", "initial", "cell"),
    ]


def test_superseded_records_take_no_part() -> None:
    """Of a model that was edited and run again in one directory, the newest counts."""
    a = seeds([0.9] * 3, digest="old") + seeds([0.1] * 3, digest="new", minutes=1)
    assert only(compared(a, seeds([0.2] * 3))).a == (0.1, 0.1, 0.1)


def test_runs_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    """The same one, none, an empty one, and runs without a cell or seed in common."""
    a = run(seeds([0.1, 0.2]))
    later = [each.model_copy(update={"seed": 7}) for each in seeds([0.1])]
    for first, second, said in (
        (a, a, "twice"),
        (a, run([], "b"), "no records"),
        (a, run(seeds([0.1], model="gpt"), "b"), "--pair OLD=NEW"),
        (a, run(later, "b"), "seeds: 'a' has 0, 1, 'b' has 7"),
        (a, tmp_path, "no run"),
    ):
        with pytest.raises(RequestError) as refused:
            harness.compare(first, second)
        assert said in str(refused.value)


def test_parts_of_one_run_may_be_compared() -> None:
    """Two of its models, for example."""
    whole = run(seeds([0.1] * 3) + seeds([0.2] * 3, model="gpt"))
    found = harness.compare(whole.filter(model="lstm"), whole.filter(model="gpt"), pair={"lstm": "gpt"})
    assert only(found).verdict == "better"


def test_models_are_called_as_reports_of_their_run_call_them() -> None:
    """Aliases are the suite's, as in reports of a run."""
    suite = Suite(experiments=[Experiment(models=[Request(name="lstm", alias="ours")])])
    records = tuple(named(each, alias="ours") for each in seeds([0.1]))
    found = harness.compare(Results(records, Path("a"), suite), run(seeds([0.1]), "b"))
    assert only(found).cell.model == "ours -> lstm"


def invoke(*words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["compare", *map(str, words)])
    return done.exit_code, done.output


def test_the_command_writes_every_format(tmp_path: Path) -> None:
    """To standard output or a file; a table of every number, and all of it as data."""
    a = stored(tmp_path / "a", seeds([0.1, NAN, 0.3]), pack=True)
    b = stored(tmp_path / "b", seeds([0.2, 0.3, INF], digest="d2"))
    code, text = invoke(a, b)
    assert code == 0
    assert "not comparable" in text
    rows = list(csv.DictReader(io.StringIO(invoke(a, b, "--format", "csv")[1])))
    assert [(row["measurement"], row["verdict"]) for row in rows] == [
        ("score", "not comparable"),
        ("scale", "identical"),
    ]
    data = json.loads(invoke(a, b, "--format", "json")[1])
    assert data["rows"][0]["a_by_seed"] == [0.1, "NaN", 0.3]
    assert data["rows"][0]["b_by_seed"] == [0.2, 0.3, "Infinity"]
    assert data["changes"][0]["what"] == "code (digest)"
    for form in ("markdown", "latex"):
        assert invoke(a, b, "--format", form, "--out", tmp_path / form)[0] == 0
        assert "Did the change help?" in (tmp_path / form).read_text(encoding="utf-8")


def test_the_command_refuses_with_2(tmp_path: Path) -> None:
    """What is wrong with the request, before anything is read."""
    a, b = (stored(tmp_path / name, seeds([0.1])) for name in "ab")
    for words, said in (
        ((a, a), "twice"),
        ((a, tmp_path / "none"), "no run"),
        ((a, b, "--pair", "nobody=lstm"), "nobody"),
        ((a, b, "--format", "html"), "--out page.html"),
        ((a, b, "--out", tmp_path / "no" / "x"), "no folder"),
    ):
        code, text = invoke(*words)
        assert code == 2
        assert said in text


@pytest.mark.parametrize("fixture", ["run-schema-1-suite", "run-schema-1-statuses"])
def test_runs_of_earlier_versions_are_compared(fixture: str, tmp_path: Path) -> None:
    """A copy of a run is the same as the run, packed too."""
    copy = tmp_path / "copy"
    shutil.copytree(FIXTURES / fixture, copy)
    store = RunDirectory(copy)
    store.pack(list(store.read_records()))
    found = harness.compare(FIXTURES / fixture, copy)
    assert {row.verdict for row in found.rows} <= {"identical"}
    assert found.changes == []
    assert not found.only_a
    assert not found.only_b


def test_texts_of_plugins_do_nothing() -> None:
    """Neither in a terminal nor in a spreadsheet."""
    evil = [*seeds([0.1], model="=cmd\x1b[2J"), record(failed="\x1b[2J", seed=1, model="=cmd\x1b[2J")]
    found = compared(evil, seeds([0.1, 0.2], model="=cmd\x1b[2J"))
    for form in ("text", "markdown", "latex", "csv"):
        assert "\x1b" not in found.render(form)
    rows = list(csv.DictReader(io.StringIO(found.render("csv"))))
    assert {row["model"][0] for row in rows} == {"'"}


def test_a_format_that_is_none_is_refused() -> None:
    """With those there are."""
    with pytest.raises(RequestError, match="html"):
        compared(seeds([0.1]), seeds([0.2])).render("htm")


def test_what_an_exchanged_state_leaves_of_a_score_is_no_merit() -> None:
    """As of the other probes that intervene: lower is evidence of reliance."""
    a, b = (seeds([value] * 3, probe="state_cut") for value in (0.5, 0.1))
    assert only(compared(a, b)).verdict == "lower"
