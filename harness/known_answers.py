"""`harness verify --long`: models whose answers after training are known, as a suite all of whose claims must hold."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.api import prepare
from harness.claims import Judgement
from harness.errors import RequestError
from harness.report.elements import Block, Heading, Paragraph, Table
from harness.report.layout import Column
from harness.report.verdicts import claim_columns, comparison, judged, per_seed, tally
from harness.requests import build_suite

SUITE = "known-answers"
"""A name, or a file."""


class KnownAnswers:
    """The suite, planned; nothing has been trained yet.

    Args:
        device: where models are.
        out: the run directory; `runs/known-answers` if not said.
        jobs: trials at a time; one for each core if not said.

    Attributes:
        judgements: on each claim, once it has run.

    Raises:
        RequestError: there is no such suite, it claims nothing, or it is wrong.
    """

    def __init__(self, *, device: str = "cpu", out: Path | None = None, jobs: int | None = None) -> None:
        self.suite = build_suite(suite=SUITE)
        if not self.suite.claims:
            raise RequestError(f"the suite {self.suite.name!r} claims nothing, so that nothing could be wrong")
        self.prepared = prepare(self.suite, out=out, jobs=jobs, device=device)
        self.judgements: Sequence[Judgement] = ()

    @property
    def out(self) -> Path:
        """The run directory."""
        return self.prepared.out

    def run(self, report: Callable[[Any], None] = lambda progress: None) -> None:
        """Train and measure what is not there yet, and judge every claim.

        Args:
            report: is told how far it is, as `harness.execution.execute` does.
        """
        results = self.prepared.execute(report)
        self.judgements = [judged(claim, results.records, self.suite) for claim in self.suite.claims]

    @property
    def wrong(self) -> list[Judgement]:
        """Claims that do not hold; what is undecided does not."""
        return [each for each in self.judgements if each.verdict != "holds"]

    def blocks(self) -> list[Block]:
        """The claims, for people."""
        passed = ["pass" if each.verdict == "holds" else "FAIL" for each in self.judgements]
        columns = [Column("", passed, "label"), *claim_columns(self.judgements)]
        return [
            Heading(f"{self.suite.name}: {self.suite.summary}" if self.suite.summary else self.suite.name),
            Table(columns, whole=True),
            Paragraph(f"{tally(self.judgements)} Records: {self.out}/records"),
        ]

    def as_dict(self) -> dict[str, Any]:
        """The claims, as JSON has them."""
        return {
            "suite": self.suite.name,
            "claims": [
                {
                    "claim": each.claim.text,
                    "verdict": each.verdict,
                    "holds": each.verdict == "holds",
                    "comparison": comparison(each.claim),
                    "numbers": per_seed(each),
                    "reason": each.explanation,
                }
                for each in self.judgements
            ],
        }
