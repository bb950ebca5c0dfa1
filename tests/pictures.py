"""Take the pictures of docs/reports.md again: ``python -m tests.pictures``.

Needs Chromium, and Pillow, which comes with SGLang.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from draftgate.report.page import render_page
from PIL import Image

from tests import states
from tests.chromium import screenshot

PICTURES = states.ROOT / "docs" / "pictures"
COLORS = 64
TAKEN = (
    ("red", 1400, 1560, False),
    ("red", 360, 1240, True),
    ("green", 1400, 1240, True),
    ("green", 360, 1240, False),
    ("nothing", 1400, 640, False),
    ("sixty", 1400, 1600, False),
)
"""State, width, height, dark."""


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    accepted, history = states.accepted_nights(), states.history_of(31)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        for state, width, height, dark in TAKEN:
            record = getattr(states, state)()
            page.write_text(render_page(record, accepted=accepted, history=history))
            picture = PICTURES / f"{state}-{width}{'-dark' if dark else ''}.png"
            screenshot(
                page, picture, Path(folder) / "profile", width=width, height=height, dark=dark
            )
            with Image.open(picture) as taken:
                taken.convert("RGB").quantize(COLORS).save(picture, optimize=True)
            sys.stdout.write(f"{picture} {picture.stat().st_size // 1024} KiB\n")


if __name__ == "__main__":
    main()
