"""The claims of a suite, judged, as a table."""


from harness.claims import judge
from harness.report.layout import Column
from harness.report.writers import Block, Heading, Paragraph, Table
from harness.schema import Record
from harness.suites import Suite

STAGES = {"initial": "at initialisation", "trained": "after training"}


def claim_blocks(suite: Suite, records: list[Record], *, compact: bool = False) -> list[Block]:
    """The table of claims and one line that counts the verdicts."""
    verdicts = [judge(claim, records, range(suite.seeds)) for claim in suite.claims]
    columns = [Column("verdict", [v.verdict for v in verdicts], "label")]
    if compact:
        cells = ["\n".join(filter(None, (_stated(v.claim), *_evidence(v)))) for v in verdicts]
        columns.append(Column("claim", cells, "text"))
    else:
        columns += [
            Column("claim", [v.claim.text for v in verdicts], "text"),
            Column("comparison", [comparison(v.claim) for v in verdicts], "text"),
            Column("numbers", [numbers(v) for v in verdicts], "text"),
            Column("why", [v.explanation for v in verdicts], "text"),
            Column("source", [v.claim.source for v in verdicts], "text"),
        ]
    return [Heading("Claims"), Table(columns), Paragraph(tally(verdicts))]
