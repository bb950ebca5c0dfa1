"""Loads the plugin of this checkout; everything else lives in `fixtures/` and `tests/`."""

from __future__ import annotations

import sys
from importlib.util import find_spec

NEEDED = ("filelock", "jinja2", "packaging", "psutil", "pydantic", "pytest_benchmark", "requests")
if absent := [name for name in NEEDED if find_spec(name) is None]:
    sys.exit(
        f"{sys.executable} lacks {', '.join(absent)}, which draftgate needs. `tox -e main` puts "
        "everything into .tox/engine: run .tox/engine/bin/python -m pytest; or install it here: "
        "python -m pip install -e '.[test]'"
    )

pytest_plugins = ["draftgate.plugin", "pytester"]
