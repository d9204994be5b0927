"""One trial after the other, in this process."""

from collections.abc import Iterator, Sequence

from harness.executors import Report
from harness.runner import Work, run_trial
from harness.schema import Record


def run_local(works: Sequence[Work], report: Report) -> Iterator[Record]:
    """Run the trials in order."""
    for done, work in enumerate(works):

        def tell(share: float, done: int = done) -> None:
            report(done + share)

        yield from run_trial(work, tell)
        report(done + 1)
