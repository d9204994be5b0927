"""Where trials run: in this process, or in worker processes. Both yield records when they are written."""

from collections.abc import Callable

Report = Callable[[int, float], None]
"""Called with the index of a trial and its share that is done, 0 to 1."""
