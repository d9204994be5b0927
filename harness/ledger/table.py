"""A ledger for people."""

import math

from harness.ledger.counting import ORDER, Ledger
from harness.ledger.parts import PARTS
from harness.report.elements import Block, Heading, Items, Table
from harness.report.layout import Column
from harness.written import count, size


def blocks(name: str, found: Ledger) -> list[Block]:
    """The ledger of a model by that name.

    Args:
        name: what it is called.
        found: its ledger.
    """
    used = [part for part in PARTS if any(by[part] for by in (found.parameters, found.forward, found.training))]
    totals = [sum(by.values()) for by in (found.parameters, found.forward, found.training)]
    columns = [Column("part", [*used, "all"], "label")]
    for header, by, total, number in (
        ("parameters", found.parameters, totals[0], "{:,}".format),
        ("forward", found.forward, totals[1], in_words),
        ("forward and backward", found.training, totals[2], in_words),
    ):
        columns.append(Column(header, [*(number(by[part]) for part in used), number(total)]))
        if by is not found.training:
            columns.append(Column("share", [*(_share(by[part], total) for part in used), ""]))
    kinds = f", {found.interface.input_size:,} token ids" if found.interface.input == "tokens" else ""
    return [Heading(f"{name}: {count(found.length, 'token')}{kinds}"), Table(columns), Items(_sentences(found))]


def _sentences(found: Ledger) -> list[str]:
    left = []
    if found.state_bytes:
        left.append(f"a state of {size(found.state_bytes)}, at any length")
    if found.cache_bytes:
        left.append(f"keys and values of {size(found.cache_bytes)}, in proportion to the length")
    below, above = found.chain
    growth = f"; those of a forward pass grow as length^{found.exponent:.2f} here"
    return [
        "operations are multiplications and additions in products of matrices, attention and convolutions, for one "
        f"sequence{'' if math.isnan(found.exponent) else growth}",
        f"left behind for the next token: {' and '.join(left) or 'nothing that can be seen from outside'}",
        f"reads {ORDER[found.growth]}: the longest chain of operations that wait for one another is {below} at "
        f"{count(found.chain_lengths[0], 'token')} and {above} at {found.chain_lengths[1]}",
    ]


def _share(part: int, total: int) -> str:
    return f"{part / total:.1%}" if total else ""


def in_words(operations: int) -> str:
    """`96.6 GFLOP`."""
    for name, one in (("P", 10**15), ("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if operations >= one:
            return f"{operations / one:.3g} {name}FLOP"
    return f"{operations} FLOP"
