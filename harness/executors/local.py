"""One trial after the other, in this process."""

from collections.abc import Iterator, Sequence
from functools import partial

from harness.executors import Report
from harness.runner import Work, run_trial
from harness.schema import Record


def run_local(works: Sequence[Work], report: Report) -> Iterator[Record]:
    """Run the trials in order."""
    for index, work in enumerate(works):
        yield from run_trial(work, partial(report, index))
        report(index, 1.0)
