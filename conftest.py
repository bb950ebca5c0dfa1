"""Loads draftgate's plugin; everything else lives in `fixtures/` and `tests/`."""

from __future__ import annotations

from pathlib import Path

import fixtures

if not Path(fixtures.__file__ or "").is_relative_to(Path(__file__).parent):
    # PyPI has a package of the same name; with it in front, nothing here would be tested.
    raise ImportError(
        f"the package `fixtures` comes from {fixtures.__file__}, not from this checkout; "
        "uninstall the other one: python -m pip uninstall fixtures"
    )

pytest_plugins = ["fixtures.plugin", "pytester"]
