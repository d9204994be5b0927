"""The library's front: what a wrong call says, what results answer, and what a run directory keeps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
from conftest import SHORT
from record_factory import record

import harness
from harness import RequestError
from harness.claims import judge
from harness.devices import check_device
from harness.report import rows
from harness.report.grouping import group
from harness.requests import build_suite, default_out
from harness.results import Results
from harness.store import RunDirectory
from harness.suites import Request, Suite


@pytest.fixture(autouse=True)
def _as_users_call_it() -> Iterator[None]:
    """Without the runtime type checks of the tests, which would refuse wrong types first."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


QUICK: dict[str, Any] = {"seeds": 1, "examples": 8, "training": {"steps": 1, "batch_size": 4}}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"training": "steps=3"}, "training is a dictionary, for example .* received 'steps=3'"),
        ({"training": []}, r"or a list of them; received \[\]"),
        ({"training": ["steps=3"]}, "or a list of them; received"),
        ({"jobs": 0}, "jobs is a number of processes, 1 or more; received 0"),
        ({"jobs": "2"}, "received '2'"),
        ({"jobs": True}, "received True"),
        ({"fresh": "no"}, "fresh is True or False; received 'no'"),
        ({"baselines": ["ngram"]}, "baselines is True or False"),
        ({"seeds": 0}, "seeds: should be greater than or equal to 1"),
        ({"seeds": True}, "seeds: should be a number"),
        ({"examples": 0}, "examples: should be greater than or equal to 1"),
        ({"tasks": []}, "tasks: it is empty; give at least one"),
        ({"stages": "final"}, "there is no stage 'final'; choose from initial, trained"),
        ({"stages": []}, "nothing to measure"),
        ({"training": {"steps": None}}, "wrong:\n  give either steps or epochs"),
        ({"models": 3}, r"model 1: name a plugin: 'gpt:layers=4', .* \(received 3\)"),
        ({"models": [{"layers": 4}]}, "model 1: name a plugin"),
        ({"models": Suite}, "'harness.suites:Suite': argument 'experiments' is missing"),
        ({"device": None}, "there is no device None; choose cpu or cuda"),
        ({"suite": "recall", "tasks": ["recall"]}, "leave out the tasks, or the suite; models stand beside its own"),
        ({"suite": "recall", "models": None, "tasks": ["recall"]}, "leave out the tasks, or the suite"),
        ({"suite": "recall", "models": None, "probes": ["speed"]}, "leave out the probes, or the suite"),
        ({"suite": "gpt:layers=4", "models": None}, "There is a model of that name: give it with --model gpt:layers=4"),
        ({"grid": {3: [1]}}, r"grid is a dictionary of lists, .* received {3: \[1\]}"),
        ({"suite": "x" * 300, "models": None}, "there is no suite 'xxx"),
        ({"models": None}, r'nothing to measure: give models=\["lstm"\]'),
        ({"models": {"": "lstm"}}, "the alias of model 'lstm' is empty"),
        ({"seeds": "3"}, "seeds is a whole number, for example seeds=3; received '3'"),
        ({"examples": 8.0}, "examples is a whole number"),
        ({"stages": 3}, "stages is one of initial, trained, or a list of them; received 3"),
        ({"stages": [3]}, "there is no stage 3"),
        ({"out": 3}, "out is a directory, for example out=.*; received 3"),
        ({"out": ""}, "out is a directory"),
        ({"out": __file__}, "choose another .*out= in Python"),
    ],
)
def test_a_wrong_call_is_refused(wrong: dict[str, Any], said: str, tmp_path: Path) -> None:
    """With the words of the call, before anything is written."""
    with pytest.raises(RequestError, match=said):
        harness.run(**{"models": ["lstm"], "out": tmp_path / "run", **wrong})
    assert not (tmp_path / "run").exists()


def test_a_device_beyond_the_last_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """`cuda:3` where there is one card."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    check_device("cuda")
    check_device("cuda:0")
    with pytest.raises(RequestError, match="'cuda:3' is not available"):
        check_device("cuda:3")


@pytest.mark.parametrize(
    "one", ["lstm:hidden=8", Request(name="lstm", arguments={"hidden": 8}), {"name": "lstm", "hidden": 8}]
)
def test_one_request_needs_no_list(one: Any) -> None:
    """As text, as a request or as a table."""
    assert [str(model) for model in build_suite(one).experiments[0].models] == ["lstm:hidden=8"]


@pytest.fixture
def results() -> Results:
    """Two models with two seeds each; one record failed."""
    records = [record(model=model, seed=seed) for model in ("lstm:hidden=8", "lstm") for seed in (0, 1)]
    return Results((*records, record(model="gpt", failed="out of memory")), Path("there"))


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({"model": "lstm"}, 2),
        ({"model": ["lstm", "lstm:hidden=8"]}, 4),
        ({"model": "lstm:hidden=8"}, 2),
        ({"model": "lstm", "seed": 1}, 1),
        ({"status": "skipped"}, 0),
        ({"stage": "initial"}, 0),
        ({"model": "gpt", "status": "ok"}, 0),
        ({"model": "gpt", "seed": 1}, 0),
        ({}, 5),
    ],
)
def test_results_are_filtered(results: Results, wanted: dict[str, Any], count: int) -> None:
    """By name or label; a model without arguments is meant by its name, where there is one. What exists but not
    together is an empty answer."""
    assert len(results.filter(**wanted)) == count


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"model": Suite}, "no model <class .* There are: gpt, lstm"),
        ({"model": "lstn"}, "no model 'lstn'. Did you mean 'lstm'.* There are: gpt, lstm, lstm:hidden=8"),
        ({"task": "copy"}, "no task 'copy'. There are: recall"),
        ({"probe": "acuracy"}, "Did you mean 'accuracy'"),
        ({"seed": 7}, "no seed 7. There are: 0, 1"),
        ({"seed": "0"}, "no seed '0'. A seed is a number: seed=0. There are: 0, 1"),
        ({"status": "faild"}, "Did you mean 'failed'.* There are: ok, skipped, failed"),
        ({"stage": "final"}, "There are: initial, trained"),
    ],
)
def test_a_filter_for_what_never_was_is_refused(results: Results, wrong: dict[str, Any], said: str) -> None:
    """A typing error must not read as "nothing was measured"."""
    with pytest.raises(RequestError, match=said):
        results.filter(**wrong)


@pytest.mark.parametrize("pair", [{"lstm": 3}, {3: "lstm"}, [3], 3])
def test_what_is_no_pair_is_refused(results: Results, pair: Any) -> None:
    """A comparison says how names are paired."""
    with pytest.raises(RequestError, match=r"for example {.*received"):
        harness.compare(results.filter(model="lstm"), results.filter(model="gpt"), pair=pair)


@pytest.mark.parametrize("width", [0, -3, "wide", float("nan"), True])
def test_a_width_that_is_none_is_refused(results: Results, width: Any) -> None:
    """It is told in inches."""
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    with pytest.raises(RequestError, match="a number of inches"):
        results.plot("reach", width=width)


def test_filters_can_follow_one_another(results: Results) -> None:
    """A model without an ok record is known all the same."""
    assert len(results.filter(status="ok").filter(model="gpt")) == 0
    assert len(results.filter(status="ok").filter(model="lstm").filter(seed=0)) == 1


def suite(name: str, claims: int = 1) -> Suite:
    """One LSTM, and a claim about it."""
    claim = {"text": "c", "probe": "accuracy", "metric": "worst_inside", "comparison": ">", "value": 0.5}
    experiment = {"models": ["lstm:hidden=4"], "tasks": [SHORT]}
    return Suite.model_validate({"name": name, "experiments": [experiment], "claims": [claim] * claims})


def test_a_mistyped_claim_is_no_undecided_one(tmp_path: Path) -> None:
    """A warning and the report say that it is invalid, and which name was meant."""
    right, claim = suite("mine"), suite("mine").claims[0]
    wrong = right.model_copy(update={"claims": [claim, claim.model_copy(update={"metric": "worst_insied"})]})
    with pytest.warns(UserWarning, match="Did you mean 'worst_inside'"):
        text = " ".join(harness.run(suite=wrong, out=tmp_path, **QUICK).render().split())
    assert "Did you mean 'worst_inside'?" in text
    assert "1 is invalid." in text


def stored(out: Path) -> Suite:
    found = RunDirectory(out).read_suite()
    assert found is not None
    return found


def test_a_run_without_claims_keeps_those_of_the_directory(tmp_path: Path) -> None:
    """One more measurement in a suite's directory does not take the claims away from its report."""
    harness.run(suite=suite("mine"), out=tmp_path, **QUICK)
    results = harness.run(["lstm:hidden=4"], [SHORT], ["grad_reach"], out=tmp_path, **QUICK)
    assert len(results) == 2
    assert stored(tmp_path).name == "mine"
    harness.run(["lstm:hidden=4"], [SHORT], out=tmp_path, fresh=True, **QUICK)
    assert stored(tmp_path).name == "mine"


def test_fresh_measures_anew_what_is_asked_for_and_nothing_else(tmp_path: Path) -> None:
    """Runs of other questions share the directory: their records stay, and so does the time they took."""
    both = harness.run(["lstm:hidden=4"], [SHORT], ["accuracy", "grad_reach"], out=tmp_path, **QUICK)
    more = harness.run(["lstm:hidden=5"], [SHORT], ["accuracy"], out=tmp_path, **QUICK)
    harness.run(["lstm:hidden=4"], [SHORT], ["accuracy"], out=tmp_path, fresh=True, **QUICK)
    before = {record.id: record for record in (*both, *more)}
    after = {record.id: record for record in harness.load(tmp_path)}
    assert after.keys() == before.keys()
    anew = [after[id] for id in after if after[id].provenance.finished != before[id].provenance.finished]
    assert [(record.model.label, record.probe.name) for record in anew] == [("lstm:hidden=4", "accuracy")]
    assert anew[0].trained != both.filter(probe="accuracy").records[0].trained  # it was trained again, too


def test_a_suite_replaces_its_own_claims_but_not_those_of_another(tmp_path: Path) -> None:
    """Whoever edits a suite and runs it again sees the new claims; a second suite wants a directory of its own."""
    harness.run(suite=suite("mine"), out=tmp_path, **QUICK)
    with pytest.raises(RequestError, match="holds the suite 'mine' with its claims; choose another directory"):
        harness.run(suite=suite("yours"), out=tmp_path, **QUICK)
    harness.run(suite=suite("mine", claims=2), out=tmp_path, **QUICK)
    assert len(stored(tmp_path).claims) == 2
    harness.run(suite=suite("mine", claims=0), out=tmp_path, **QUICK)
    assert stored(tmp_path).claims == []
    harness.run(suite=suite("yours"), out=tmp_path, **QUICK)
    assert stored(tmp_path).name == "yours"


def test_a_stored_suite_that_cannot_be_read_is_replaced(tmp_path: Path) -> None:
    """There is nothing in it to keep."""
    (tmp_path / "suite.json").write_text("{", encoding="utf-8")
    harness.run(suite=suite("mine"), out=tmp_path, **QUICK)
    assert stored(tmp_path).name == "mine"


LONG = "lstm:embedding=8,hidden=4"


def test_a_model_stands_beside_those_of_a_suite() -> None:
    """First in each of its experiments; the suite's own request, and all else, stay as they are."""
    own, found = build_suite(suite="recall"), build_suite("mine=gru:hidden=8", suite="recall")
    mine = Request.model_validate("mine=gru:hidden=8")
    assert [each.models[0] for each in found.experiments] == [mine] * len(own.experiments)
    kept = [each.model_copy(update={"models": each.models[1:]}) for each in found.experiments]
    assert found.beside == [mine]
    assert found.model_copy(update={"experiments": kept, "beside": []}) == own == build_suite(suite="recall")


@pytest.mark.parametrize(
    "models", [f"small={LONG}", {"small": LONG}, {"small": {"name": "lstm", "embedding": 8, "hidden": 4}}]
)
def test_an_alias_is_what_the_user_sees(models: Any, tmp_path: Path) -> None:
    """In tables, filters and rows; the label is still there for whoever wants to type the request again."""
    results = harness.run(models, [SHORT], out=tmp_path, **QUICK)
    (found,) = results.filter(model="small")
    assert (found.model.alias, found.model.label) == ("small", LONG)
    assert {row["model"] for row in results.rows()} == {"small"}
    assert LONG not in results.render().split("Labels")[0]


def test_an_alias_never_measures_anew(tmp_path: Path) -> None:
    """The same cells with another alias, or without one; each request sees its own, whatever the records say."""
    first = harness.run(f"small={LONG}", [SHORT], **QUICK, out=tmp_path)
    second = harness.run(f"tiny={LONG}", [SHORT], **QUICK, out=tmp_path)
    assert [record.timing for record in second] == [record.timing for record in first]
    assert [record.model.alias for record in (*first, *second)] == ["small", "tiny"]
    assert [record.model.alias for record in harness.load(tmp_path)] == ["tiny"]
    assert [record.model.alias for record in harness.run(LONG, [SHORT], **QUICK, out=tmp_path)] == [""]
    (kept,) = RunDirectory(tmp_path).read_records()
    assert kept.model.alias == "small"


def test_two_ways_of_training_are_two_rows(tmp_path: Path) -> None:
    """Labelled by what differs; a claim says which one it speaks of."""
    ways = [{"steps": 1, "batch_size": 4, "lr": lr} for lr in (1e-3, 1e-2)]
    claim = {"text": "c", "probe": "accuracy", "metric": "worst_inside", "comparison": ">=", "value": 0}
    claims = [claim, claim | {"training": {"lr": 1e-3}}]
    asked = Suite.model_validate({"experiments": [{"models": ["lstm:hidden=4"], "tasks": [SHORT]}], "claims": claims})
    results = harness.run(suite=asked, seeds=3, examples=8, training=ways, out=tmp_path)
    assert len(results) == 6
    (measured,) = group(results.records)
    assert [row.label for row in measured.rows] == ["lstm (lr=0.001)", "lstm (lr=0.01)"]
    assert [judge(each, results).verdict for each in asked.claims] == ["undecided", "holds"]


def test_an_alias_of_two_models_names_neither() -> None:
    """Two runs of one directory may have used a word for different models: then tables show the labels."""
    records = [record(model=label) for label in ("lstm", "gpt", "elman")]
    named = [
        each.model_copy(update={"model": each.model.model_copy(update={"alias": alias})})
        for each, alias in zip(records, ("small", "small", "old"), strict=True)
    ]
    assert [row["model"] for row in rows(named)] == ["lstm", "gpt", "old"]


def test_an_alias_does_not_change_where_a_run_goes() -> None:
    """Or it would train again, elsewhere."""
    assert default_out(build_suite(f"small={LONG}")) == default_out(build_suite(LONG))


def test_a_run_is_loaded_with_its_suite(tmp_path: Path) -> None:
    """Its claims are judged; a record that cannot be read is told and left out."""
    harness.run(suite=suite("mine"), out=tmp_path, **QUICK)
    loaded = harness.load(str(tmp_path))
    assert "Of 1 claim," in str(loaded)
    (path,) = (tmp_path / "records").iterdir()
    (path.parent / f"{'0' * 16}.json").write_bytes(path.read_bytes()[:50])
    with pytest.warns(UserWarning, match="1 of 2 record files cannot be read"):
        assert len(harness.load(tmp_path)) == 1
    with pytest.raises(RequestError, match="there is no run in"):
        harness.load(tmp_path / "elsewhere")
    with pytest.raises(RequestError, match=r"named by its directory, .*; received 3"):
        harness.load(3)  # type: ignore[arg-type]


def test_the_package_shows_what_it_offers() -> None:
    """`dir`, and so completion in a notebook, knows names that are loaded on first use."""
    assert {"run", "load", "Task", "__version__"} <= set(dir(harness))
    assert all(getattr(harness, name) is not None for name in dir(harness))
