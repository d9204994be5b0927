"""Words that the command line, suites, records and reports share. Imports nothing heavy, so that `--help` is fast."""

from typing import Literal, get_args

Stage = Literal["initial", "trained"]
"""When a model is measured: as constructed, or after training."""
STAGES: tuple[Stage, ...] = get_args(Stage)

Status = Literal["ok", "skipped", "failed"]
"""What became of a cell."""
STATUSES: tuple[Status, ...] = get_args(Status)

SEEDS_ALIKE = "weights do not depend on the seed"
"""Part of the warning that a model's seeds are no repetitions; reports and claims then count them as one."""

CROSSED = ("model", "task", "probe")
"""The kinds of plugins that a suite crosses; every record names one of each."""

Drawn = Literal["text", "markdown", "latex"]
"""How a report is written for people."""
DRAWN: tuple[Drawn, ...] = get_args(Drawn)

Format = Literal[Drawn, "csv", "json"]
"""How a report is written: for people, or for programs."""
FORMATS: tuple[Format, ...] = get_args(Format)
