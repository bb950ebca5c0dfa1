"""An interpreter that holds the stand-in instead of SGLang, for `--dg-server-python`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

HERE = Path(__file__).parent


def make_interpreter(folder: Path, version: str = "0.5.23") -> Path:
    """A `python` in `folder` whose `-m sglang.launch_server` is the stand-in, posing as `version`.

    It sees no other distribution. A fault is chosen by FAKE_SGLANG_FAULT in the environment of
    pytest, or of one server (`env` of a profile).
    """
    site = folder / "site" / f"sglang-{version}.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n")
    python = folder / "python"
    path = shlex.quote(f"{site.parent}:{HERE}")
    python.write_text(
        "#!/bin/sh\n"
        f"export FAKE_SGLANG_VERSION={version} PYTHONPATH={path}\n"
        f'exec {shlex.quote(sys.executable)} -S "$@"\n'
    )
    python.chmod(0o755)
    return python
