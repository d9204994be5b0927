"""Draw the figures of the README and of the guides from a finished run: `docs/reach.png` and `docs/page.png`.

    harness run -m elman -m lstm -m gpt -t recall:train_max=100 -p accuracy -p grad_reach -p attention_to_subject \
        -p edge_cut -p input_swap -p speed --out runs/figures
    python docs/make_figures.py runs/figures

Or `make figures`, which does both. The page is shown by the system's Chromium, which Playwright drives.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import harness
from harness.results import Results

FOLDER = Path(__file__).parent
LARGEST = 300_000
"""Bytes of a figure."""

SCREEN = {"width": 1100, "height": 1220}
"""Pixels of the page that are shown."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main() -> None:
    """Draw both figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run directory")
    parser.add_argument("--out", type=Path, default=FOLDER, help="the folder to draw into (default: docs)")
    asked = parser.parse_args()
    results = harness.load(asked.run)
    paths = [draw_reach(results, asked.out / "reach.png"), show_page(results, asked.out / "page.png")]
    for path in paths:
        size = path.stat().st_size
        sys.stdout.write(f"{path}: {size // 1000} kB\n")
        if size > LARGEST:
            raise SystemExit(f"{path} is larger than {LARGEST // 1000} kB")


def draw_reach(results: Results, path: Path) -> Path:
    """The four questions along distance."""
    results.drawings().save({"reach": path}, width=6)
    return path


def show_page(results: Results, path: Path) -> Path:
    """The top of the page, as a browser shows it."""
    from playwright.sync_api import sync_playwright

    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise SystemExit(f"the page is shown by Chromium, which is not installed (looked for {', '.join(BROWSERS)})")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "page.html"
        page.write_text(results.page(), encoding="utf-8")
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        tab = opened.new_page(viewport=SCREEN, color_scheme="light")
        tab.goto(page.as_uri())
        tab.screenshot(path=path)
        opened.close()
    return path


if __name__ == "__main__":
    main()
