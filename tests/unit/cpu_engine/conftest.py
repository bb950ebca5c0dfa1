"""Loads our `sgl_kernel` from the overlay folder, beside whatever wheel the environment holds."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from draftgate.cpu_engine import SITE

pytest.importorskip("torch", reason="the CPU engine's kernels are PyTorch code")


def _is_kernel(name: str) -> bool:
    return name == "sgl_kernel" or name.startswith("sgl_kernel.")


@pytest.fixture(scope="session")
def kernel() -> Iterator[ModuleType]:
    """The overlay's ``sgl_kernel``, imported as a CPU server imports it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SGLANG_USE_CPU_ENGINE", "1")
        patch.syspath_prepend(str(SITE))
        foreign = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_kernel(name)}
        module = importlib.import_module("sgl_kernel")
        assert Path(str(module.__file__)).is_relative_to(SITE)
        yield module
        for name in [name for name in sys.modules if _is_kernel(name)]:
            del sys.modules[name]
        sys.modules.update(foreign)


@pytest.fixture
def server_environment() -> dict[str, str]:
    """The environment of a child process that imports the overlay as a server would."""
    inherited = {k: v for k, v in os.environ.items() if k != "SGLANG_USE_CPU_ENGINE"}
    return inherited | {"PYTHONPATH": str(SITE)}
