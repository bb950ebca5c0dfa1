"""Around the kernels: absent names, refusals, the plug-in, flags and environment."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distributions
from types import ModuleType

import pytest
from draftgate.cpu_engine import ENVIRONMENT, FLAGS, SITE, SWITCHES


def run_python(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )


def test_an_absent_kernel_raises_on_call_and_names_itself(kernel: ModuleType) -> None:
    from_import = kernel.rotate_input_ids_cpu
    with pytest.raises(NotImplementedError, match=r"sgl_kernel\.rotate_input_ids_cpu is not part"):
        from_import(1, key=2)


@pytest.mark.parametrize("name", ["convert_weight_packed", "fused_qk_norm_cpu", "silu_and_mul"])
def test_probing_for_an_optional_kernel_finds_nothing(kernel: ModuleType, name: str) -> None:
    torch = pytest.importorskip("torch")
    assert not hasattr(torch.ops.sgl_kernel, name)
    assert not hasattr(kernel, name)
    with pytest.raises(AttributeError, match=f"sgl_kernel.{name} is not part of draftgate's CPU"):
        getattr(kernel, name)


def test_importing_the_kernels_beside_a_gpu_fails(
    kernel: ModuleType, server_environment: dict[str, str]
) -> None:
    done = run_python("import sgl_kernel", server_environment)
    assert done.returncode == 1
    assert "RuntimeError: draftgate's CPU stand-in for sgl_kernel was imported" in done.stderr


def test_the_plugin_ends_a_server_that_is_not_on_the_cpu_engine(
    server_environment: dict[str, str],
) -> None:
    code = "from draftgate_cpu_plugin import activate\ntry: activate()\nexcept Exception: pass"
    done = run_python(code, server_environment)
    assert done.returncode == 1
    assert "must not be used here: SGLANG_USE_CPU_ENGINE is not 1" in done.stderr


def test_the_plugin_is_found_by_its_entry_point() -> None:
    (found,) = distributions(path=[str(SITE)])
    (entry,) = found.entry_points
    assert (entry.group, entry.value) == ("sglang.srt.plugins", "draftgate_cpu_plugin:activate")
    assert found.metadata["Name"] == "draftgate-cpu"


def test_flags_bound_the_cache() -> None:
    assert FLAGS == {
        "--device": "cpu",
        "--attention-backend": "intel_amx",
        "--max-total-tokens": "8192",
    }


def test_an_idle_server_leaves_the_core_to_others() -> None:
    assert SWITCHES == ("--sleep-on-idle",)
    assert ENVIRONMENT["OMP_NUM_THREADS"] == "1"
    assert ENVIRONMENT["SGLANG_USE_CPU_ENGINE"] == "1"
