"""A page in a browser: the fixtures, and what screen readers would stumble over."""

import locale
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
PATIENCE = 300_000
"""Milliseconds, after which something hangs: a machine may be busy."""


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """The system's Chromium, without a network."""
    api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
    if not CHROMIUM:
        pytest.skip("the browser tests need Chromium (apt install chromium)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", "/tmp")  # Chromium's socket in it needs a short path
        with api.sync_playwright() as playwright:
            opened = playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"], timeout=PATIENCE
            )
            yield opened
            opened.close()


@pytest.fixture
def shown(browser: "Browser", page: str, tmp_path: Path) -> "Iterator[Page]":
    """The page in a browser; at the end there must have been no request, message, error or dialogue."""
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    context = browser.new_context(offline=True)
    context.set_default_timeout(PATIENCE)
    tab = context.new_page()
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("dialog", lambda dialog: said.append(dialog.message))
    tab.on("request", lambda request: said.append(request.url) if request.url != path.as_uri() else None)
    tab.goto(path.as_uri())
    yield tab
    context.close()
    assert said == []


def serious(shown: "Page", scheme: Any) -> list[tuple[str, str]]:
    """What axe finds in a theme that is serious or worse: its rule, and the first place."""
    if locale.getpreferredencoding(False).lower() not in ("utf-8", "utf8"):
        pytest.skip("axe-playwright-python reads its script as the locale says, which is not UTF-8 here")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="the test needs axe-playwright-python")
    shown.emulate_media(color_scheme=scheme)
    found = axe.Axe().run(shown).response["violations"]
    return [(each["id"], each["nodes"][0]["html"]) for each in found if each["impact"] in ("serious", "critical")]
