"""Loads draftgate's plugin; everything else lives in `fixtures/` and `tests/`."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import fixtures

if not Path(fixtures.__file__ or "").is_relative_to(Path(__file__).parent):
    # PyPI has a package of the same name; with it in front, nothing here would be tested.
    raise ImportError(
        f"the package `fixtures` comes from {fixtures.__file__}, not from this checkout; "
        "uninstall the other one: python -m pip uninstall fixtures"
    )

NEEDED = ("filelock", "jinja2", "packaging", "psutil", "pydantic", "pytest_benchmark", "requests")
if absent := [name for name in NEEDED if find_spec(name) is None]:
    sys.exit(
        f"{sys.executable} lacks {', '.join(absent)}, which draftgate needs. `tox -e main` puts "
        "everything into .tox/engine: run .tox/engine/bin/python -m pytest; or install it here: "
        "python -m pip install -e '.[test]'"
    )

pytest_plugins = ["fixtures.plugin", "pytester"]
