"""One trial after the other, in this process."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar

from harness.executors import Tell
from harness.schema import Record
from harness.work import Work


class Local:
    """Trials run in the calling process, one after the other, where a debugger and a notebook's own classes are.

    They share it: what a plugin changes of torch and its settings is put back, as everywhere, but a plugin that ends or
    blocks the process ends or blocks the run, and other libraries stay as it has left them.
    """

    here: ClassVar = True

    def __call__(self, works: Sequence[Work], tell: Tell) -> Iterator[Record]:
        """Run the trials in order."""
        from harness.runner import run_trial

        for index, work in enumerate(works):
            yield from run_trial(work, partial(tell, index))
            tell(index, 1.0)
