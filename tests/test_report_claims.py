"""Claims in a report: their verdicts, in words, with the numbers that decide them."""

from typing import Any

from record_factory import curve, record
from reports import claims, factor, lines

from harness.report import render
from harness.suites import Suite


def test_claims_with_their_evidence() -> None:
    """Verdict, words, comparison, number of every seed, reason; and one line that counts."""
    text = render(*claims())
    assert "Results of demo" in text
    assert lines(text, "It | works") == ["holds It | works (Table 2)"]
    assert "every seed: per_step_factor > 0.9 (probe accuracy)" in text
    assert lines(text, "supported") == ["seeds 0: 0.950, 1: 0.960, 2: 0.970: supported by all 3 seeds"]
    assert lines(text, "It fails") == ["does not hold It fails"]
    assert "median seed: per_step_factor < 0.9 by 0.01 or more (probe accuracy)" in text
    assert lines(text, "GRUs work") == ["undecided GRUs work"]
    assert "seeds 0-2: no record" in text
    assert text.rstrip().endswith("Of 3 claims, 1 holds, 1 does not hold, 1 is undecided.")


def test_many_seeds_are_told_by_quantiles() -> None:
    """In summaries, in the lines of curves, beside claims, and in the explanation."""
    numbers = enumerate(range(1, 22))
    drawn = [record(factor(n / 100), curve([n / 10, 1, 1, 1, 1]), seed=seed) for seed, n in numbers]
    said = {"probe": "accuracy", "metric": "per_step_factor", "text": "It works", "quantile": 0.1}
    asked = [said | {"value": 0.03, "within": "5 %"}, said | {"value": 0.02, "comparison": "<"}]
    suite = Suite.model_validate({"experiments": [{"models": ["lstm"]}], "claims": asked})
    text = " ".join(render(drawn, suite).split())
    assert text.count("0.110 [80 %: 0.0300..0.190]") == 3
    assert "10 % quantile over seeds: per_step_factor within 5 % of 0.03 (probe accuracy)" in text
    assert "10 % quantile over seeds: per_step_factor < 0.02 (probe accuracy)" in text
    assert "Of 2 claims, 1 holds, 1 does not hold." in text
    assert "10 % 0.300" in text
    assert "90 % 1.90" in text
    assert "lowest" not in text
    assert "10 % and 90 % quantiles" in text


def test_claims_about_a_share_of_the_seeds_say_how_many() -> None:
    """That support it, and that are needed."""
    records, suite = claims()
    share = suite.claims[0].model_copy(update={"seeds": 0.6, "comparison": None, "within": 0.05})
    text = " ".join(render(records, suite.model_copy(update={"claims": [share]})).split())
    assert "60 % of seeds: per_step_factor within 0.05 of 0.9 (probe accuracy)" in text
    assert "supported by 1 of 3 seeds, where 2 are needed; contradicted by seeds 1, 2" in text


def test_a_comparison_of_two_models_in_words() -> None:
    """What is compared with what, where, relative to what."""
    records = [
        record(curve([1, 0.5, 0.4, 0.3, 0.2 / p]), model=m, seed=s)
        for m, p in (("gpt", 1), ("lstm", 2))
        for s in range(3)
    ]
    claim = {
        "text": "GPT reaches further",
        "model": "gpt",
        "probe": "accuracy",
        "metric": "accuracy",
        "at": 100,
        "relative_to": 10,
        "comparison": ">",
        "than": {"model": "lstm"},
        "factor": 1.5,
    }
    suite = Suite.model_validate({"experiments": [{"models": ["gpt", "lstm"]}], "claims": [claim]})
    text = " ".join(render(records, suite).split())
    assert "accuracy at 100, relative to 10, > 1.5 x the same of model lstm (gpt, probe accuracy)" in text
    assert "seeds 0: 0.400 against 0.200 (2.00x)" in text


def test_a_claim_about_what_was_measured_once_shows_its_error() -> None:
    """Of the number, or of the difference where two are compared; there is no seed to name."""
    about: dict[str, Any] = {"pretrained": True, "training": {"steps": 0}, "model": "hf"}
    records = [
        record(factor(value).model_copy(update={"standard_error": 0.03}), **{**about, "model": model})
        for model, value in (("hf", 0.9), ("other", 0.6))
    ]
    base = {"text": "good", "probe": "accuracy", "metric": "per_step_factor", "comparison": ">", "model": "hf"}
    claims = [{**base, "value": 0.5}, {**base, "than": {"model": "other"}}]
    suite = Suite.model_validate({"experiments": [{"models": ["hf", "other"]}], "claims": claims})
    text = " ".join(render(records, suite).split())
    assert "0.900 ± 0.0300: measured once, and clear by more than two standard errors" in text
    assert "0.900 against 0.600, difference ± 0.0424: measured once" in text
    assert "Of 2 claims, 2 hold." in text
