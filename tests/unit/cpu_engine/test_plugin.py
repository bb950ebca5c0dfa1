"""The plug-in inside a real SGLang: one look-up changes, and another device ends the server."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(find_spec("sglang") is None, reason="SGLang is not installed here")

# One process does it all: importing SGLang costs more than everything after it.
IN_A_SERVER = """
import json
from sglang.srt.plugins import load_plugins
load_plugins()
from sglang.srt import runtime_context
from sglang.srt.arg_groups import overrides
from sglang.srt.server_args import ServerArgs
from sglang.srt.utils.common import cpu_has_amx_support

class View:
    attention_backend, device = "intel_amx", "cpu"

print(json.dumps({
    "in overrides": overrides.get_platform().has_amx,
    "elsewhere": runtime_context.get_platform().has_amx,
    "weight packing": cpu_has_amx_support(),
    "another fact": overrides.get_platform().is_cuda,
    "changes of the back end": overrides._attention_backend_platform_fallbacks(View()),
}))
for device in ("cpu", "cuda"):
    ServerArgs(model_path="none", device=device).resolve_once()
    print("resolved", device)
"""


def test_one_lookup_reads_true_and_another_device_ends_the_server(
    server_environment: dict[str, str],
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IN_A_SERVER],
        env=server_environment | {"SGLANG_USE_CPU_ENGINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "the server's device is 'cuda', not 'cpu'" in done.stderr
    assert done.returncode == 1
    *_, facts, resolved = done.stdout.splitlines()
    assert resolved == "resolved cpu"
    assert json.loads(facts) == {
        "in overrides": True,
        "elsewhere": False,
        "weight packing": False,
        "another fact": False,
        "changes of the back end": {},
    }
