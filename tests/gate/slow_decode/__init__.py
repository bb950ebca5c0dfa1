"""A server that is slower by a chosen percentage and does nothing else: `site` holds the plug-in.

With `SITE` on its PYTHONPATH and `PERCENT` in its environment, every decode step of a real server
takes that many percent longer; with `PACE_MS`, that long at least before.
"""

from pathlib import Path
from typing import Final

SITE: Final = Path(__file__).resolve().parent / "site"
PERCENT: Final = "SLOW_DECODE_PERCENT"
PACE_MS: Final = "SLOW_DECODE_PACE_MS"
