"""Chromium without a window: what a page becomes in a real browser."""

from __future__ import annotations

import os
import shutil
import subprocess
from html import escape
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
TIMEOUT_S = 180
DARK = "--blink-settings=preferredColorScheme=0"


def find_chromium() -> str | None:
    """The browser's path; None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def dump(html: str, folder: Path, *, width: int, dark: bool = False) -> tuple[str, list[str]]:
    """The document around `html` after all scripts ran, and what went to the console.

    The page stands in a frame of that width, since a window is never narrower than 500 pixels; its
    scripts may leave what they found in the text of ``parent.document.body.lastChild``.
    """
    page = folder / "frame.html"
    page.write_text(
        '<!doctype html><meta name="color-scheme" content="light dark"><body>'
        f'<iframe style="border:0;width:{width}px;height:900px" srcdoc="{escape(html)}"></iframe>'
        "<pre></pre></body>"
    )
    options = ("--dump-dom", "--enable-logging=stderr")
    done = _run(folder / "profile", width + 100, 1000, dark, *options, str(page))
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def screenshot(
    page: Path, picture: Path, profile: Path, *, width: int, height: int, dark: bool = False
) -> None:
    """Write the top `height` pixels of the page to `picture`, a PNG."""
    _run(profile, width, height, dark, f"--screenshot={picture}", str(page))


def _run(
    profile: Path, width: int, height: int, dark: bool, *arguments: str
) -> subprocess.CompletedProcess[str]:
    browser = find_chromium()
    assert browser is not None
    return subprocess.run(
        [
            *(browser, "--headless", "--disable-gpu", "--hide-scrollbars"),
            *(f"--user-data-dir={profile}", f"--window-size={width},{height}"),
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            *([DARK] if dark else []),
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
