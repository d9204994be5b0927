"""The claims of a suite, judged, as a table."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from harness.claims import Judgement, Verdict, judge
from harness.errors import describe
from harness.measurements import format_place
from harness.report.elements import Block, Heading, Paragraph, Table
from harness.report.grouping import IN_WORDS
from harness.report.layout import Column
from harness.report.numbers import number, spread
from harness.safe import sentence
from harness.schema import Record
from harness.seeds import MANY_SEEDS, percent, summarise
from harness.suites import Claim, Selection, Suite
from harness.written import count, format_arguments


def claim_blocks(suite: Suite, records: list[Record], *, compact: bool = False) -> list[Block]:
    """The claims with their verdicts, and one line that counts them."""
    judgements = [judged(claim, records, suite) for claim in suite.claims]
    columns = [Column("verdict", [each.verdict for each in judgements], "label")]
    if compact:
        columns.append(Column("claim", [_all_of_it(each) for each in judgements], "text"))
    else:
        columns += [
            *claim_columns(judgements),
            Column("source", [sentence(each.claim.source) for each in judgements], "text"),
        ]
    return [Heading("Claims"), Table(columns, whole=True), Paragraph(tally(judgements))]


def claim_columns(judgements: Sequence[Judgement]) -> list[Column]:
    """Claims, what they compare, the number of every seed, and why the verdict is what it is."""
    told = {
        "claim": [each.claim.text for each in judgements],
        "comparison": [comparison(each.claim) for each in judgements],
        "seeds": [per_seed(each) for each in judgements],
        "why": [each.explanation for each in judgements],
    }
    return [Column(header, [*map(sentence, cells)], "text") for header, cells in told.items()]


def judged(claim: Claim, records: Sequence[Record], suite: Suite) -> Judgement:
    """The verdict on a claim of a suite, whatever its records are."""
    try:
        return judge(claim, records, range(suite.seeds_for(claim)), suite.grid)
    except Exception as error:  # a report shows what it can
        return Judgement(claim, "not judged", {}, f"could not be judged: {describe(error)}")


def unanswerable(
    suite: Suite | None, records: Sequence[Record], verdicts: Sequence[Verdict] = ("invalid claim", "not judged")
) -> list[str]:
    """What is wrong with the claims of a suite that nobody can answer, a sentence each.

    Args:
        suite: with the claims.
        records: those of the run.
        verdicts: `invalid claim`: the suite has to be put right; `not judged`: an error came up.
    """
    judgements = [judged(claim, records, suite) for claim in suite.claims] if suite else []
    return [
        f"the claim {each.claim.text!r} {'is invalid: ' if each.verdict == 'invalid claim' else ''}{each.explanation}"
        for each in judgements
        if each.verdict in verdicts
    ]


def _all_of_it(judgement: Judgement) -> str:
    """In three lines."""
    claim = judgement.claim
    source = f" ({claim.source})" if claim.source else ""
    numbers = f"{per_seed(judgement)}: " if judgement.numbers else ""
    return "\n".join(map(sentence, (claim.text + source, comparison(claim), numbers + judgement.explanation)))


def comparison(claim: Claim) -> str:
    """`every seed: min of accuracy beyond > 0.95 (gpt, recall, probe accuracy)`, or
    `60 % of seeds: accuracy at 10 within 0.05 of 0.5 (probe accuracy)`."""
    other = claim.other()
    if other is None or claim.than is None:
        reference = f"{claim.value:g}"
    else:
        fields = ", ".join(f"{key.replace('_', ' ')} {_written(getattr(other, key))}" for key in claim.than)
        reference = f"{f'{claim.factor:g} x ' if claim.factor != 1 else ''}the same of {fields}"
    margin = f" by {claim.margin:g} or more" if claim.margin else ""
    where = [str(claim.model or ""), str(claim.task or ""), f"probe {claim.probe}"]
    where += [IN_WORDS["initial"]] if claim.stage == "initial" else []
    where += [_written(claim.training)] if claim.training else []
    where += ["the way of training that is best on validation data"] if claim.best else []
    return (
        f"{_whom(claim)}: {_quantity(claim)} {relation(claim)} {reference}{margin} ({', '.join(filter(None, where))})"
    )


def _whom(claim: Claim) -> str:
    if claim.quantile is not None:
        return f"{percent(claim.quantile)} quantile over seeds"
    return f"{percent(claim.seeds)} of seeds" if isinstance(claim.seeds, float) else f"{claim.seeds} seed"


def relation(claim: Claim) -> str:
    """What stands between a number and what it is compared with: `<=`, or `within 0.05 of`."""
    return claim.comparison or f"within {claim.within if isinstance(claim.within, str) else f'{claim.within:g}'} of"


def _written(value: Any) -> str:
    return format_arguments(value) if isinstance(value, dict) else str(value)


def _quantity(selection: Selection) -> str:
    text = f"{selection.reduce} of {selection.metric}" if selection.reduce else selection.metric
    if selection.row is not None:
        text += f", row {selection.row}"
    if selection.at in ("inside", "beyond"):
        text += f" {selection.at} the trained range"
    elif selection.at is not None:
        places = selection.at if isinstance(selection.at, list) else [selection.at]
        text += f" at {', '.join(map(format_place, places))}"
    if selection.relative_to is not None:
        text += f", relative to {format_place(selection.relative_to)},"
    return text


def per_seed(judgement: Judgement) -> str:
    """`seeds 0: 0.998, 1: 1.00`, with what each is compared with if that depends on the seed; many in summary. What was
    measured once, without seeds: `0.912 ± 0.011`."""
    if judgement.errors:
        ((value, reference),), (error,) = judgement.numbers.values(), judgement.errors.values()
        against = _against(judgement.claim, value, reference)
        of = ", difference" if against else ""
        return f"{number(value)}{against}{'' if math.isnan(error) else f'{of} ± {number(error)}'}"
    if len(judgement.numbers) > MANY_SEEDS:
        values = spread(summarise(value for value, _ in judgement.numbers.values()))
        return f"{len(judgement.numbers)} seeds: {values}"
    parts = [
        f"{seed}: {number(value)}{_against(judgement.claim, value, reference)}"
        for seed, (value, reference) in judgement.numbers.items()
    ]
    return f"seed{'s' if len(parts) > 1 else ''} {', '.join(parts)}" if parts else ""


def _against(claim: Claim, value: float, reference: float) -> str:
    """What a number is compared with, if that depends on the seed, and their ratio if the claim is about one."""
    if claim.than is None:
        return ""
    other = reference / claim.factor
    text = f" against {number(other)}"
    if claim.factor == 1 or not other or not value:
        return text
    ratio = value / other
    return f"{text} ({number(ratio)}x)" if ratio >= 1 else f"{text} (1/{number(1 / ratio)})"


def tally(judgements: Sequence[Judgement]) -> str:
    """`Of 15 claims, 12 hold, 2 do not hold, 1 is undecided.`"""
    counts = Counter(each.verdict for each in judgements)
    words: dict[Verdict, tuple[str, str]] = {
        "holds": ("holds", "hold"),
        "does not hold": ("does not hold", "do not hold"),
        "undecided": ("is undecided", "are undecided"),
        "invalid claim": ("is invalid", "are invalid"),
        "not judged": ("could not be judged", "could not be judged"),
    }
    parts = [f"{n} {one if n == 1 else several}" for outcome, (one, several) in words.items() if (n := counts[outcome])]
    return f"Of {count(len(judgements), 'claim')}, {', '.join(parts)}."
