"""The cards of a report as a table, so that it answers in its first lines."""

from collections.abc import Sequence

from harness.report.cards import NOT_MEASURED, QUESTIONS, Answer, Card
from harness.report.elements import Block, Paragraph, Table
from harness.report.grouping import MARK
from harness.report.layout import Column
from harness.seeds import FEW_SEEDS
from harness.written import count

MOST_CARDS = 40
"""At most this many are shown before the tables, which have all."""


BEST = "Of each model the cell of the grid that is best on validation data."
"""What is said where cards are of no other."""


def card_blocks(cards: Sequence[Card], note: str = "") -> list[Block]:
    """A table for each task: a row for each model, a column for each question that was asked there. Then the questions
    that nobody asked, and by which probe one would.

    Args:
        cards: one for each row.
        note: what to say of all of them.
    """
    shown = cards[:MOST_CARDS]
    tasks = list(dict.fromkeys(card.task for card in shown))
    by_task = {task: [card for card in shown if card.task == task] for task in tasks}
    blocks: list[Block] = [
        _table(found, f"On {task}" if len(tasks) > 1 else "") for task, found in by_task.items() if asked(found)
    ]
    if note:
        blocks.append(Paragraph(note))
    if any(_undecided(name, answer) for card in shown for name, answer in card.answers.items()):
        blocks.append(Paragraph(f"?: undecided. It takes {FEW_SEEDS} seeds that agree on an answer to decide."))
    if len(cards) > len(shown):
        blocks.append(Paragraph(f"{count(len(cards) - len(shown), 'more row')} not shown; the tables below have all."))
    if missing := not_asked(cards):
        blocks.append(Paragraph(missing))
    return blocks if asked(cards) else []


def _table(cards: Sequence[Card], title: str) -> Table:
    with_ranges, without = (
        [
            Column("model", [card.called + f" {MARK}" * card.suspect for card in cards], "label"),
            *(
                Column(name, [_cell(name, card.answers[name], ranges) for card in cards], "text")
                for name in asked(cards)
            ),
        ]
        for ranges in (True, False)
    )
    return Table(with_ranges, title, narrow=without)


def asked(cards: Sequence[Card]) -> list[str]:
    """The questions that something was measured for, of any of the cards."""
    return [name for name in QUESTIONS if any(card.answers[name] is not NOT_MEASURED for card in cards)]


def not_asked(cards: Sequence[Card]) -> str:
    """The others, and by which probes one would ask them; "" if there are none."""
    missing = [name for name in QUESTIONS if name not in asked(cards)]
    what = ", ".join(f"{name} (--probe {QUESTIONS[name].probes[0]})" for name in missing)
    return f"Not measured: {what}." if what else ""


def explained(cards: Sequence[Card]) -> list[str]:
    """What stands in the columns of the table, for those that have numbers."""
    said = []
    for name in QUESTIONS:
        abouts = dict.fromkeys(card.answers[name].about for card in cards if card.answers[name].about)
        if abouts:
            said.append(f"{name}: {QUESTIONS[name].asks} The number: {'; or '.join(abouts)}.")
    return said


def _undecided(name: str, answer: Answer) -> bool:
    return QUESTIONS[name].judges and bool(answer.probe) and answer.tone == "open"


def _cell(name: str, answer: Answer, ranges: bool) -> str:
    """`yes` over `0.98 [0.97..1.00]`."""
    word = f"? {answer.word}" if _undecided(name, answer) else answer.word
    number = answer.number if ranges else answer.number.partition(" [")[0]
    return f"{word}\n{number}" if number else word
