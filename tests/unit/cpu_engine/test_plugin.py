"""The plug-in inside a real SGLang: one look-up changes, nothing else."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(find_spec("sglang") is None, reason="SGLang is not installed here")

SETUP = """
import json, sys
from sglang.srt.plugins import load_plugins
load_plugins()
from sglang.srt.arg_groups import overrides
from sglang.srt import runtime_context
from sglang.srt.utils.common import cpu_has_amx_support
"""
FACTS = """
class View:
    attention_backend, device = "intel_amx", "cpu"
facts = {
    "in overrides": overrides.get_platform().has_amx,
    "elsewhere": runtime_context.get_platform().has_amx,
    "packing": cpu_has_amx_support(),
    "another fact": overrides.get_platform().is_cuda,
    "resolution": overrides._attention_backend_platform_fallbacks(View()),
}
print(json.dumps(facts))
"""
WRONG_DEVICE = """
from sglang.srt.server_args import ServerArgs
args = ServerArgs(model_path="none", device=sys.argv[1])
args.resolve_once()
print("resolved")
"""


def run_sglang(
    code: str, environment: dict[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SETUP + code, *arguments],
        env=environment | {"SGLANG_USE_CPU_ENGINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_one_lookup_reads_true(server_environment: dict[str, str]) -> None:
    done = run_sglang(FACTS, server_environment)
    assert done.returncode == 0, done.stderr
    import json

    assert json.loads(done.stdout.splitlines()[-1]) == {
        "in overrides": True,
        "elsewhere": False,
        "packing": False,
        "another fact": False,
        "resolution": {},
    }


@pytest.mark.parametrize(("device", "status"), [("cpu", 0), ("cuda", 1)])
def test_another_device_ends_the_server(
    server_environment: dict[str, str], device: str, status: int
) -> None:
    done = run_sglang(WRONG_DEVICE, server_environment, device)
    assert done.returncode == status, done.stderr
    assert ("the server's device is 'cuda', not 'cpu'" in done.stderr) == (device == "cuda")
