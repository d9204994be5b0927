"""What several commands share: folders to write to, the width of a terminal, rendered records."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import click


class Folder(click.Path):
    """A folder to write to; `Path("")` would be the current one."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty; name a folder, or leave the option out", param, ctx)
        return super().convert(value, param, ctx)


def rendered(results: Any, suite: Any, form: Any) -> str:
    from harness.registry import default_registry
    from harness.report import can_draw, render

    records = list(results)
    with redirect_stdout(sys.stderr):
        sections = default_registry().notify("harness_report_sections", records=records)
    ascii, note = not can_draw(sys.stdout.encoding), results.note
    return render(records, suite, form, width=terminal_width(), ascii=ascii, sections=sections, note=note)


def terminal_width() -> int:
    """Columns to fill: the terminal's (or `COLUMNS`), within what reads well."""
    import shutil

    return max(40, min(shutil.get_terminal_size((100, 24)).columns, 140))


def counted(n: int | str, word: str) -> str:
    return f"{n} {word}{'' if str(n) == '1' else 's'}"
