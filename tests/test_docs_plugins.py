"""The plugin documents are true: the table of checks is generated, nothing is undocumented, the policy is enforced."""

import re
from pathlib import Path
from typing import Any

import pytest
from documented import DOORS, hooks, undocumented
from entry_points import entry_points_in, write_distribution

from harness import contracts, hookspecs, registry, specs, statistics, subject
from harness.testing import MODEL_CHECKS, PROBE_CHECKS, TASK_CHECKS
from harness.testing.reference import reference

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GUIDE = (DOCS / "write-a-plugin.md").read_text(encoding="utf-8")
CHECKS = (DOCS / "reference" / "checks.md").read_text(encoding="utf-8")


def test_the_table_of_checks_is_the_generated_one() -> None:
    """After a change of a check: python -m harness.testing.reference > docs/reference/checks.md."""
    assert reference() == CHECKS


def test_the_reference_names_every_check() -> None:
    """With what a failure means."""
    for check in (*MODEL_CHECKS, *TASK_CHECKS, *PROBE_CHECKS):
        assert f"| `{check.name}` |" in CHECKS
        assert check.means in CHECKS


def test_everything_public_is_documented() -> None:
    """Hooks, specs, contracts with their attributes and methods, measurements, needs and checks; what probes may use,
    with every argument."""
    assert undocumented() == []


@pytest.mark.parametrize(
    ("place", "name", "value", "missing"),
    [
        (hookspecs, "harness_later", lambda: None, "hook harness_later"),
        (hookspecs.harness_models, "__doc__", "", "hook harness_models"),
        (contracts.Task, "__annotations__", {"colour": str}, "Task.colour"),
        (subject.Subject, "later", lambda self: None, "Subject.later()"),
        (contracts.Metric, "__doc__", "How to read a number.", "Metric.unit"),
        (statistics.fit_decay, "__doc__", "Fit a curve, y along x.", "fit_decay(smallest)"),
    ],
)
def test_something_undocumented_is_found(
    place: Any, name: str, value: Any, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new hook, attribute or method without a word about it."""
    monkeypatch.setattr(place, name, value, raising=False)
    assert missing in undocumented()


@pytest.mark.parametrize("name", [door.__name__ for door in DOORS])
def test_what_probes_may_use_has_a_page(name: str) -> None:
    """Made from the docstrings; the guide leads to it and uses the module in its example."""
    page = f"reference/{name.partition('.')[2]}.md"
    assert f"\n::: {name}\n" in (DOCS / page).read_text(encoding="utf-8")
    assert f"[`{name}`]({page})" in GUIDE
    assert f"from {name} import" in GUIDE


def test_the_guide_names_every_hook() -> None:
    """On the one page that a plugin author reads."""
    for name in hooks():
        assert f"`{name}`" in GUIDE


def test_links_between_the_documents_lead_somewhere() -> None:
    """Files, and headings of this page."""
    headings = {re.sub(r"\W+", "-", line.lower()) for line in re.findall(r"^#+ (.+)$", GUIDE, re.MULTILINE)}
    for target in re.findall(r"\]\(([^)]+)\)", GUIDE):
        path, _, anchor = target.partition("#")
        assert not path or (DOCS / path).exists(), target
        assert path or anchor in headings, target


def test_the_guide_states_the_versions_that_are_enforced() -> None:
    """The policy is written down with the numbers of the code."""
    assert f"versions {registry.OLDEST_CONTRACT} to {specs.CONTRACT_VERSION}" in GUIDE
    assert "contract=1" in GUIDE


OFFER = """
from harness import ModelSpec, hookimpl

@hookimpl
def harness_models():
    for version in (1, 2, 3, 4):
        yield ModelSpec(f"v{version}", "math:sqrt", contract=version)
"""


def test_older_contracts_work_and_others_are_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A harness of the future, which speaks versions 2 and 3: what is too old or too new fails alone."""
    monkeypatch.setattr(registry, "OLDEST_CONTRACT", 2)
    monkeypatch.setattr(registry, "CONTRACT_VERSION", 3)
    write_distribution(tmp_path, monkeypatch, "acme", OFFER)
    found = registry.build_registry(entry_points_in(tmp_path))
    assert [entry.spec.name for entry in found.all("model")] == ["v2", "v3"]
    old, new = map(str, found.broken)
    said = "of acme 1.0: it was written for contract version {}, this harness speaks 2 to 3; upgrade the {}"
    assert f"'v1' {said.format(1, 'plugin')}" in old
    assert f"'v4' {said.format(4, 'harness')}" in new
