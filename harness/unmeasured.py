"""What was planned and has no record: of a run that was interrupted, is one shard, or was cut to a budget."""

from collections.abc import Collection, Iterable

from harness.grids import argument_part
from harness.matching import matches, without
from harness.schema import Record
from harness.suites import Suite


def unmeasured(suite: Suite | None, ids: Collection[str], records: Iterable[Record], *, goes_on: bool = True) -> str:
    """What to tell of planned cells that have no record yet, and of models none of whose cells has one; "" for nothing.

    Args:
        suite: what was planned last in a run directory.
        ids: of all cells that have a record there.
        records: those of all models that were asked for.
        goes_on: whether the same command measures the others, unlike that of a shard.
    """
    left = [cell for cell in suite.planned if cell not in ids] if suite else []
    if suite is None or not left:
        return ""
    verb = "has" if len(left) == 1 else "have"
    text = f"Not complete: {len(left):,} of {len(suite.planned):,} planned cells {verb} no record yet"
    if never := never_run(suite, records):
        text += f", among them all of {', '.join(never)}"
    return f"{text}{'; the same command measures them' if goes_on else ''}."


def never_run(suite: Suite, records: Iterable[Record]) -> list[str]:
    """The models of a suite that have no record, as they were asked for, or by alias."""
    varied = argument_part(suite.grid)
    uses = {(record.model.label, record.model.target): record.model for record in records}.values()
    known = [*uses, *(without(use, varied) for use in uses)] if varied else [*uses]
    asked = {str(request): request for request in suite.requests("model")}.values()
    return [request.alias or str(request) for request in asked if not any(matches(request, use) for use in known)]
