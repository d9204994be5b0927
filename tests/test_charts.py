"""Charts: what is drawn, in which colours, and what is said where nothing can be drawn."""

import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from record_factory import INSIDE, claim, curve, cut, record, scores, timed

pytest.importorskip("altair", reason="charts need the extra `page`")
pytest.importorskip("vl_convert", reason="charts need the extra `page`")

from harness.charts import CHARTS, Size, View, available, draw
from harness.charts.drawing import Drawings
from harness.charts.files import fitted, specification, svg
from harness.charts.grid import _cells
from harness.charts.heads import cut_heads
from harness.charts.lines import powers, spread_out
from harness.charts.style import PALETTE, looks
from harness.charts.view import thinned
from harness.errors import RequestError
from harness.measurements import Matrix, Pattern, Scalar
from harness.report.cards import cards
from harness.schema import Record
from harness.suites import Experiment, Request, Suite

SIZE = Size(700, 700)


def attention(seed: int, model: str = "gpt") -> Record:
    """Where two heads look."""
    return record(
        Matrix(
            name="share_on_cue",
            unit="share",
            values=[[0.9, 0.8], [0.1, 0.2], [0.5, 0.01]],
            rows=["layer 1 head 1", "layer 1 head 2", "uniform"],
            columns=["1", "100"],
            row_label="attention at the query",
            column_label="distance",
        ),
        curve([0.9, 0.8], [1, 100], name="sharpest_share"),
        Pattern(
            name="pattern",
            tokens=["K1", "d2", "?"],
            heads=["layer 1 head 1", "layer 1 head 2"],
            weights=[[[1.0], [0.25, 0.75], [0.9, 0.0, 0.1]], [[1.0], [1.0], [0.1, 0.45, 0.45]]],
            cue=0,
            query=2,
        ),
        model=model,
        probe="attention_to_subject",
        seed=seed,
    )


def run(**more: Any) -> View:
    """Records of everything that charts show, three seeds."""
    records: list[Record] = []
    for seed in range(3):
        for model in ("elman", "gpt"):
            records += [
                record(curve([1, 1, 0.9, 0.5, 0.2], inside=INSIDE, levels={"chance": 0.125}), model=model, seed=seed),
                record(
                    curve([1, 1e-2, 1e-4, 1e-9, 0], name="reach", inside=INSIDE, unit="ratio", scale="log"),
                    model=model,
                    probe="grad_reach",
                    stage="initial",
                    seed=seed,
                ),
            ]
        records += [attention(seed), cut(seed), timed(seed)]
    crossed = [Experiment(models=[Request(name="elman"), Request(name="gpt")])]
    suite = Suite(experiments=crossed, claims=[claim(metric="accuracy", model="gpt", reduce="min", text="a <b> & c")])
    learning = [{"step": 100.0 * n, "loss": 1 / n, "validation_loss": 1 / n} for n in range(1, 5)]
    return View(records, suite, lambda trial: learning, **more)


def data(spec: Any) -> list[dict[str, Any]]:
    """All rows in a specification."""
    return [row for rows in spec.get("datasets", {}).values() for row in rows]


def test_every_chart_draws_a_run_that_has_everything() -> None:
    """All but the grid, which needs several ways of training; each is a valid specification that renders."""
    view = run()
    missing = {name for name, reason in available(view).items() if reason}
    assert missing == {"grid"}
    for name in CHARTS.keys() - missing:
        assert svg(specification(draw(name, view, SIZE))).startswith("<svg")


def test_reach_has_a_point_for_each_seed_and_the_median() -> None:
    """Nothing is left out, and gradient of nothing is drawn at the floor."""
    rows = data(specification(draw("reach", run(), SIZE)))
    seeds = [row for row in rows if row.get("model") == "elman" and row.get("x") == 100 and "seed" in row]
    assert {row["seed"] for row in seeds} == {0, 1, 2}
    assert sorted({row["y"] for row in seeds}) == [1e-6, 0.2]
    assert {"name": "chance", "x": 1, "y": 0.125} in rows


def test_a_model_has_one_colour_in_every_chart() -> None:
    """Also in charts where another model is missing."""
    view = run()
    colour = view.looks["gpt"]["color"]
    for name in ("reach", "heads", "learning"):
        text = str(specification(draw(name, view, SIZE)))
        assert colour in text
    assert view.looks["elman"]["color"] == PALETTE[0] != colour
    many = looks([f"m{n}" for n in range(20)])
    assert len({(look["color"], str(look["dash"])) for look in many.values()}) == 20


def test_a_baseline_is_called_one_in_every_chart() -> None:
    """As in tables, also where it stands alone."""
    whole, score = run(), Scalar(name="worst_inside", unit="share", value=1.0)
    grid = [record(score, training={"lr": lr}, loss=lr) for lr in (1e-3, 1e-2)]
    marked = [
        each.model_copy(update={"model": each.model.model_copy(update={"baseline": True})})
        for each in (*whole.records, *grid)
    ]
    view = View(marked, whole.suite, whole.learning)
    named = {name: str(specification(draw(name, view, SIZE))) for name in CHARTS if name != "claims"}
    assert [name for name, text in named.items() if "(baseline)" not in text] == []
    assert all(name.endswith("(baseline)") for name in view.looks)
    assert {card.called for card in cards(view.groups)} == {*view.looks}


def test_heads_are_drawn_by_look_and_loss() -> None:
    """The fall is that of the score against the untouched one."""
    rows = [row for row in data(specification(draw("heads", run(), SIZE))) if row.get("seed") == 0 and "fall" in row]
    assert {(row["head"], row["attention"], round(row["fall"], 6)) for row in rows} >= {
        ("layer 1 head 1", 0.9, 0.6),
        ("layer 1 head 2", 0.1, 0.0),
    }


def test_claims_have_a_dot_for_each_seed() -> None:
    """With the verdict and the bound."""
    rows = data(specification(draw("claims", run(), SIZE)))
    assert [row["seed"] for row in rows if "seed" in row] == [0, 1, 2]
    (line,) = {(row["text"], row["verdict"], row["tone"]) for row in rows if "text" in row}
    assert line == ("a <b> & c", "does not hold", "bad")


def test_a_claim_of_equality_shows_its_tolerance() -> None:
    """At the bar of what it is equal to."""
    seen = run()
    assert seen.suite is not None
    equal = claim(metric="accuracy", model="gpt", reduce="min", within=0.05, value=0.5)
    changed = View(seen.records, seen.suite.model_copy(update={"claims": [equal]}))
    rows = data(specification(draw("claims", changed, SIZE)))
    assert {row["bound"] for row in rows if "bound" in row} == {"within 0.05 of 0.500"}


def test_the_grid_shows_ways_of_training() -> None:
    """A square for each seed of each model and learning rate, how many succeeded, and which is best on validation."""
    records = [
        record(Scalar(name="worst_inside", unit="share", value=lr * 100), seed=seed, training={"lr": lr}, loss=lr)
        for lr in (1e-3, 1e-2)
        for seed in range(3)
    ]
    rows = data(specification(draw("grid", View(records), SIZE)))
    squares = {(row["way"], row["seed"]) for row in rows if "seed" in row}
    assert squares == {(way, s) for way in ("0.001", "0.01") for s in range(3)}
    assert {(row["way"], row["rate"]) for row in rows if "rate" in row} == {("0.001", "0/3"), ("0.01", "3/3")}
    assert {row["way"] for row in rows if row.get("best")} == {"0.001"}
    unknown = [Scalar(name="worst_inside", unit="nats", value=1.0)]
    either = [record(*unknown, training={"lr": lr}, loss=lr) for lr in (1e-3, 1e-2)]
    (grid,) = View(either).learnt
    assert [row["rate"] for row in _cells(grid, "lr")] == ["", ""]


def test_what_a_run_lacks_is_named_with_the_way_to_get_it() -> None:
    """Every chart, of a run without a single curve."""
    reasons = available(View(scores(0.1, 0.2, 0.3)))
    assert set(reasons) == set(CHARTS)
    assert all(reasons.values())
    assert "--probe edge_cut" in reasons["heads"]
    assert "--training" in reasons["grid"]


@pytest.mark.parametrize(("name", "words"), [("raech", "Did you mean 'reach'"), ("grid", "trained in one way")])
def test_an_unknown_or_impossible_chart_lists_what_can_be_drawn(name: str, words: str) -> None:
    """Before anything is written."""
    with pytest.raises(RequestError) as caught:
        draw(name, run(), SIZE)
    assert words in str(caught.value)
    assert "reach, heads, attention" in str(caught.value)


@pytest.mark.parametrize("inches", [3.5, 7.0])
def test_a_chart_is_as_wide_as_a_column_of_a_paper(inches: float) -> None:
    """With axes and names, to a tenth of an inch."""
    view = run()
    drawing = svg(fitted(lambda size: draw("reach", view, size), inches * 72))
    found = re.search(r'width="([\d.]+)"', drawing)
    assert found
    assert abs(float(found[1]) - inches * 72) <= 7.2


@pytest.mark.parametrize(("chart", "inches"), [("heads", 3.5), ("attention", 7.0)])
def test_what_does_not_fit_beside_goes_below(chart: str, inches: float) -> None:
    """A chart of two tasks is no wider than asked."""
    roles = [f"role {n}" for n in range(5)]
    records = []
    for task in ("recall", "copy"):
        looks = Matrix(
            name="share_by_role",
            unit="share",
            values=[[0.2] * 5],
            rows=["layer 1 head 1"],
            columns=roles,
            row_label="head",
            column_label="role",
        )
        made = [cut(seed) for seed in range(3)] + [record(looks, model="gpt", probe="attention_to_subject")]
        records += [
            each.model_copy(update={"task": record(task=task).task, "id": f"{each.id}-{task}"}) for each in made
        ]
    drawing = svg(fitted(lambda size: draw(chart, View(records), size), inches * 72))
    found = re.search(r'width="([\d.]+)"', drawing)
    assert found
    assert float(found[1]) <= inches * 72 + 7.2


@pytest.mark.parametrize(
    ("ending", "starts"), [(".pdf", b"%PDF"), (".svg", b"<svg"), (".png", b"\x89PNG"), (".html", b"<!DOCTYPE html>")]
)
def test_files(tmp_path: Path, ending: str, starts: bytes) -> None:
    """Each format, without a browser."""
    path = tmp_path / f"figure{ending}"
    Drawings(run()).save({"claims": path})
    content = path.read_bytes()
    assert content.lstrip().startswith(starts)
    if ending == ".html":
        assert not re.search(rb'(src|href)="https?:', content)


@pytest.mark.parametrize(("name", "words"), [("x.gif", ".svg, .png, .pdf"), ("no/x.pdf", "no folder")])
def test_a_file_that_cannot_be_written_is_refused_before_drawing(tmp_path: Path, name: str, words: str) -> None:
    """The message says what would be right."""
    with pytest.raises(RequestError, match=re.escape(words)):
        Drawings(run()).save({"nonsense": tmp_path / name})


def test_names_at_the_ends_of_lines_do_not_overlap() -> None:
    """They keep their order, stay within the panel, and stand where they belong if there is room."""
    assert spread_out([("a", 10.0), ("b", 50.0)], 100) == {"a": 10.0, "b": 50.0}
    crowded = spread_out([("a", 98.0), ("b", 98.0), ("c", 99.0)], 100, gap=10)
    places = sorted(crowded.values())
    assert places[-1] <= 100
    assert all(b - a >= 10 for a, b in pairwise(places))


def test_logarithmic_axes_have_round_numbers() -> None:
    """Few of them, over one decade or thirty."""
    assert powers(1e-6, 2.0) == [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0][::2]
    assert powers(0.9, 12) == [1.0, 2.0, 5.0, 10.0]
    assert len(powers(1e-30, 1e30)) <= 7
    assert powers(0, 1) == []


def test_a_large_run_is_drawn_in_part_and_says_so() -> None:
    """The first models, tasks and seeds that have what a chart shows; long curves at some of their places."""
    records = [record(curve([0.5] * 3, [1, 2, 5]), model=f"m{n:02d}", seed=s) for n in range(13) for s in range(21)]
    view = View([*records, *(record(failed="it broke", model="a", seed=s) for s in range(21))])
    rows = [row for row in data(specification(draw("reach", view, SIZE))) if "seed" in row]
    assert {row["model"] for row in rows} == {f"m{n:02d}" for n in range(12)}
    assert {row["seed"] for row in rows} == set(range(20))
    assert "12 of 13 models, 20 of 21 seeds" in view.left_out
    assert run().left_out == ""
    places = thinned(list(range(5_000)))
    assert (len(set(places)), places[0], places[-1]) == (200, 0, 4_999)


def test_odd_numbers_do_not_stop_a_chart() -> None:
    """NaN leaves a gap; infinities and zeros are no numbers on a logarithmic axis."""
    odd = [math.nan, math.inf, 0.0, -1.0, 1e-300]
    records = [record(curve(odd, name="reach", unit="ratio"), probe="grad_reach", seed=s) for s in range(3)]
    assert svg(specification(draw("reach", View(records), SIZE))).startswith("<svg")


def test_a_fall_is_told_of_scores_that_are_shares_alone() -> None:
    """Of a loss, less is better: a cut that hurts would look like one that helps."""
    made = cut(0)
    assert cut_heads(made)["layer 1 head 1"] == (0.9, 0.6)
    loss = [m.model_copy(update={"unit": "nats"}) if m.name == "untouched" else m for m in made.measurements]
    assert cut_heads(made.model_copy(update={"measurements": loss})) == {}


def test_what_lies_at_the_floor_is_said_to() -> None:
    """A line along the bottom is no plateau."""
    assert "1e-6: that or less" in str(specification(draw("reach", run(), SIZE)))
    high = [record(curve([1, 0.5], [1, 2], name="reach", unit="ratio"), probe="grad_reach", seed=s) for s in range(3)]
    assert "that or less" not in str(specification(draw("reach", View(high), SIZE)))


def test_ways_are_told_apart_where_they_are_single_points() -> None:
    """A short training is validated once, and a dot has no dashes: marks of the second way are hollow."""
    view = run()
    once = View(view.records, view.suite, lambda trial: [{"step": 30.0, "loss": 2.0, "validation_loss": 1.0}])
    drawn = svg(specification(draw("learning", once, SIZE)))
    opacity = {
        way: set(re.findall(rf'way: {way}[^>]*fill-opacity="([^"]+)"', drawn)) for way in ("validation", "training")
    }
    assert opacity == {"validation": {"1"}, "training": {"0"}}


def test_numbers_can_be_read_on_any_depth_of_colour() -> None:
    """Text and square differ by a contrast of four or more."""
    shares = [n / 20 for n in range(21)]
    matrix = Matrix(
        name="share_on_cue",
        unit="share",
        values=[shares],
        rows=["layer 1 head 1"],
        columns=[str(n) for n in range(21)],
        row_label="head",
        column_label="distance",
    )
    drawn = svg(specification(draw("attention", View([record(matrix, probe="attention_to_subject")]), SIZE)))
    squares = re.findall(r'rect mark"[^>]*fill="rgb\((\d+), (\d+), (\d+)\)"', drawn)
    words = re.findall(r'text mark"[^>]*fill="(white|#1a1a1a)"', drawn)
    assert len(squares) == len(words) == len(shares)
    for square, word in zip(squares, words, strict=True):
        low, high = sorted((luminance(*map(int, square)), luminance(*[255 if word == "white" else 26] * 3)))
        assert (high + 0.05) / (low + 0.05) >= 4


def luminance(*colour: int) -> float:
    """Of red, green and blue, 0 to 255, as WCAG 2 defines it."""
    red, green, blue = (c / 3294.6 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
