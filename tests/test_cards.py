"""The card of a model: what each answer is made from, and when there is none."""

import math
from collections.abc import Sequence

import pytest
from record_factory import curve, record

from harness.measurements import Pattern, Scalar
from harness.report.cards import NOT_MEASURED, QUESTIONS, Answer, Card, cards
from harness.report.grouping import group
from harness.schema import Record

REACH = (1.0, 0.5, 0.2, 0.1, 0.05)
FADES = (1.0, 1e-2, 1e-4, 1e-6, 1e-8)


def said(name: str, value: float, verdict: str | None = None, unit: str = "share") -> Scalar:
    """A headline number with its verdict."""
    return Scalar(name=name, unit=unit, value=value, verdict=verdict, meaning=verdict and f"what {verdict} means")


def card(records: Sequence[Record]) -> Card:
    """The only card of these records."""
    (found,) = cards(group(records))
    return found


def answer(question: str, records: Sequence[Record]) -> tuple[str, str]:
    """Word and tone of one answer."""
    found = card(records).answers[question]
    return found.word, found.tone


def learned(*verdicts: str) -> list[Record]:
    """A record of `accuracy` for each seed."""
    return [record(said("worst_inside", 0.5, verdict), seed=seed) for seed, verdict in enumerate(verdicts)]


@pytest.mark.parametrize(
    ("verdict", "word", "tone"),
    [
        ("learned", "yes", "good"),
        ("does not extrapolate", "yes", "good"),
        ("never learned", "no", "bad"),
        ("forgets with distance", "forgets", "bad"),
        ("answers wrongly", "answers wrongly", "bad"),
        ("partly learned", "partly learned", "open"),
        ("near the threshold", "near the threshold", "open"),
        ("trained too briefly", "trained too briefly", "open"),
    ],
)
def test_learns_says_what_accuracy_says(verdict: str, word: str, tone: str) -> None:
    """Verdicts of three seeds that agree become a word; those that tell nothing stay open."""
    assert answer("learns", learned(verdict, verdict, verdict)) == (word, tone)


def test_seeds_that_differ_leave_a_question_open_and_are_counted() -> None:
    """Two successes of three are no success."""
    assert answer("learns", learned("learned", "learned", "never learned")) == ("yes 2/3, no 1/3", "open")


@pytest.mark.parametrize(("seeds", "word"), [(1, "yes (1 seed)"), (2, "yes (2 seeds)")])
def test_fewer_than_three_seeds_prove_nothing(seeds: int, word: str) -> None:
    """The word says how few there are, and the tone stays open."""
    assert answer("learns", learned(*["learned"] * seeds)) == (word, "open")


def test_reach_is_judged_at_the_farthest_trained_place_at_initialisation() -> None:
    """What training has to work with; what lies beyond it, and what training made of it, do not count."""
    inside = [True, True, True, False, False]
    early = [
        record(curve(FADES, name="reach", inside=inside), probe="grad_reach", stage="initial", seed=s) for s in range(3)
    ]
    late = [record(curve(REACH, name="reach", inside=inside), probe="grad_reach", seed=s) for s in range(3)]
    found = card([*early, *late]).answers["reaches"]
    assert (found.word, found.tone, found.number) == ("fades", "bad", "1.0e-04")
    assert "20" in found.about
    assert "initialisation" in found.about
    assert answer("reaches", late) == ("yes", "good")


def test_reach_of_one_place_decides_nothing() -> None:
    """There is nothing to compare it with."""
    records = [record(curve([1.0], [1], name="reach"), probe="grad_reach", seed=s) for s in range(3)]
    assert answer("reaches", records) == ("not enough to say", "open")


@pytest.mark.parametrize(
    ("share", "times", "word", "tone"),
    [(0.9, 10.0, "yes", "good"), (0.4, 10.0, "hardly", "bad"), (0.6, 1.5, "hardly", "bad")],
)
def test_looking_takes_half_of_the_attention_and_twice_the_uniform_share(
    share: float, times: float, word: str, tone: str
) -> None:
    """At short lengths a head that looks everywhere alike gives much to every token."""
    records = [
        record(
            said("sharpest_head", share, "layer 1 head 2"),
            said("times_uniform", times),
            probe="attention_to_subject",
            seed=s,
        )
        for s in range(3)
    ]
    assert answer("looks", records) == (word, tone)


def first(verdict: str | None, seed: int, moved: bool = True) -> Record:
    """What `edge_cut` says of the first position; `moved`: the cue always stands there, and was moved away for it."""
    scalar = Scalar(name="first_position_cut", unit="share", value=0.9, verdict=verdict, headline=moved)
    return record(scalar, probe="edge_cut", seed=seed)


@pytest.mark.parametrize(
    ("cut", "word", "tone"),
    [
        ([], "may be a habit", "open"),
        ([first("harmless", s) for s in range(3)], "yes", "good"),
        ([first("hurts, though it is not the cue", s) for s in range(3)], "may be a habit", "open"),
        ([first("not to be told apart from the cue", s) for s in range(3)], "may be a habit", "open"),
        ([first("harmless", s) for s in (2, 0)], "yes 2/3, may be a habit 1/3", "open"),
    ],
)
def test_a_look_at_a_cue_that_always_stands_first_may_be_a_habit(cut: list[Record], word: str, tone: str) -> None:
    """A head that rests on the first position looks at the cue there, too; a cut of that position tells them apart."""
    pattern = Pattern(name="pattern", tokens=["K1", "?"], heads=["h"], weights=[[[1.0], [0.9, 0.1]]], cue=0, query=1)
    looks = [
        record(said("sharpest_head", 0.9), said("times_uniform", 9.0), pattern, probe="attention_to_subject", seed=s)
        for s in range(3)
    ]
    assert answer("looks", [*looks, *cut]) == (word, tone)


def test_a_cue_that_stands_elsewhere_is_no_first_position() -> None:
    """Whatever the cut of the first position does."""
    looks = [
        record(said("sharpest_head", 0.9), said("times_uniform", 9.0), probe="attention_to_subject", seed=s)
        for s in range(3)
    ]
    cut = [first("hurts, though it is not the cue", s, moved=False) for s in range(3)]
    assert answer("looks", [*looks, *cut]) == ("yes", "good")


@pytest.mark.parametrize("question", ["reaches", "looks"])
def test_what_is_no_number_is_neither_praised_nor_blamed(question: str) -> None:
    """A gradient or weight that is NaN says nothing of how far it reaches, or where it goes."""
    reach = [record(curve([1, math.nan], [1, 2], name="reach"), probe="grad_reach", seed=s) for s in range(3)]
    looks = [
        record(said("sharpest_head", math.nan), said("times_uniform", math.nan), probe="attention_to_subject", seed=s)
        for s in range(3)
    ]
    assert answer(question, [*reach, *looks]) == ("not a number", "open")


def test_a_probe_that_says_nothing_answers_nothing() -> None:
    """No empty word."""
    assert answer("looks", [record(probe="attention_to_subject", seed=s) for s in range(3)]) == ("not measured", "open")


def test_reliance_comes_from_the_cut_or_without_attention_from_the_swap() -> None:
    """A cut is the stronger evidence; a recurrent model has one of its state."""
    swap = [record(said("cue_effect", 1.0, "follows the cue"), probe="input_swap", seed=s) for s in range(3)]
    cut = [record(said("score_after_cut", 0.9, "does not rely on it"), probe="edge_cut", seed=s) for s in range(3)]
    assert answer("relies", swap) == ("yes", "good")
    assert answer("relies", [*swap, *cut]) == ("no", "bad")
    words = "relies on it, the answer follows the state"
    state = [record(said("score_after_cut", 0.0, words), probe="state_cut", seed=s) for s in range(3)]
    assert answer("relies", state) == ("yes", "good")
    assert answer("relies", [*state, *cut]) == ("no", "bad")


def test_extrapolation_needs_places_beyond_training() -> None:
    """`accuracy` answers where `position_extrapolation` was not asked."""
    within = learned("learned", "learned", "learned")
    assert card(within).answers["extrapolates"].word == "not measured"
    beyond = [
        record(said("worst_inside", 1.0, "does not extrapolate"), said("worst_beyond", 0.2), seed=s) for s in range(3)
    ]
    assert answer("extrapolates", beyond) == ("no", "bad")
    no_chance = [record(said("worst_inside", 1.0), said("worst_beyond", 1.0), seed=s) for s in range(3)]
    assert "no verdict" in card(no_chance).answers["extrapolates"].word  # of a task without a chance level
    probe = [record(said("worst_beyond", 0.1, "at chance"), probe="position_extrapolation", seed=s) for s in range(3)]
    assert answer("extrapolates", [*beyond, *probe]) == ("falls to chance", "bad")


def test_cost_is_neither_good_nor_bad() -> None:
    """It is the exponent of time; without one nothing was measured."""
    records = [record(said("time_exponent", 1.04, unit=""), probe="speed", stage="initial", seed=s) for s in range(3)]
    assert answer("costs", records) == ("~ length^1.0", "open")
    nothing = [record(said("time_exponent", math.nan, unit=""), probe="speed", stage="initial")]
    assert card(nothing).answers["costs"] == Answer("not measured")


def test_a_card_for_each_model_on_each_task() -> None:
    """In the order of the report, with all questions in order; a model that failed has one that says so."""
    records = [
        *learned("learned", "learned", "learned"),
        *(record(said("worst_inside", 1.0, "learned"), task="noise", seed=s) for s in range(3)),
        *(record(failed="it broke", model="gpt", seed=s) for s in range(3)),
    ]
    found = cards(group(records))
    assert [(each.model, each.task) for each in found] == [
        ("lstm", "noise"),
        ("gpt", "recall"),
        ("lstm", "recall"),
    ]
    assert {found[1].answers[name].word for name in ("learns", "extrapolates")} == {"failed"}
    assert found[1].answers["looks"] is NOT_MEASURED
    assert all(tuple(each.answers) == tuple(QUESTIONS) for each in found)


def judged(score: float, verdict: str, *, beyond: float | None = None, error: float = 0.0) -> list[Record]:
    """Three seeds with a worst score in the trained range, and perhaps one beyond it."""
    levels = {"chance": 0.5, "best": 1.0}
    inside = said("worst_inside", score, verdict).model_copy(update={"levels": levels, "standard_error": error})
    more = [] if beyond is None else [said("worst_beyond", beyond)]
    return [record(inside, *more, seed=seed) for seed in range(3)]


@pytest.mark.parametrize("verdict", ["near the threshold", "trained too briefly"])
def test_a_doubt_about_what_lies_beyond_is_none_about_the_trained_range(verdict: str) -> None:
    """A verdict is of both; that of a model which answers everything it was trained on is open for the rest alone."""
    assert answer("learns", judged(1.0, verdict, beyond=0.94)) == ("yes", "good")
    assert answer("extrapolates", judged(1.0, verdict, beyond=0.94)) == ("near the threshold", "open")
    assert answer("learns", judged(0.96, verdict, beyond=0.5, error=0.01)) == (verdict, "open")


def test_a_doubt_about_the_trained_range_is_one_about_what_lies_beyond() -> None:
    """It is not said that the model has not learned; of one that failed after little training it is."""
    assert answer("extrapolates", judged(0.94, "near the threshold", beyond=0.5)) == ("near the threshold", "open")
    assert answer("extrapolates", judged(0.5, "trained too briefly", beyond=0.5)) == ("has not learned", "open")


def test_a_length_that_a_model_cannot_take_is_no_extrapolation() -> None:
    """Also where there is no score beyond; how far the scores go is told beside them."""
    limit = Scalar(name="limit", unit="tokens", value=40.0, verdict="no more positions", headline=True)
    alone, known = (
        [r.model_copy(update={"measurements": [*r.measurements, limit]}) for r in records]
        for records in (judged(1.0, "does not extrapolate"), judged(1.0, "does not extrapolate", beyond=1.0))
    )
    assert answer("extrapolates", alone) == answer("extrapolates", known) == ("no", "bad")
    assert [card(each).answers["extrapolates"].number for each in (alone, known)] == ["up to 40", "1.00 up to 40"]


def test_a_loss_that_diverged_is_told_from_an_error() -> None:
    """The one says something of the model; the other of its code."""
    diverged, broke = (
        [record(failed="words", error=error, seed=seed) for seed in range(3)]
        for error in ("DivergedError", "TypeError")
    )
    assert answer("learns", diverged) == ("diverged", "open")
    assert answer("learns", broke) == answer("learns", [*diverged[:2], broke[2]]) == ("failed", "open")
