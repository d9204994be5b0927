"""Where trials run: in this process, or in worker processes. Both yield records as they are written."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from harness.runner import Work
from harness.schema import Record

Report = Callable[[float], None]
"""Called with the number of trials done, a trial on its way counting as its share."""


class Executor(Protocol):
    """Runs trials, in any order."""

    def __call__(self, works: Sequence[Work], report: Report) -> Iterator[Record]: ...
