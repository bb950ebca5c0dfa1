from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from fixtures.catalog.spec import Draft, Prompts, ServerSpec, Speculation, Target, Throughput
from fixtures.engine.environment import build_environment
from fixtures.engine.interpreter import Interpreter
from fixtures.engine.plan import Launch
from fixtures.engine.ports import free_port
from fixtures.engine.redact import secrets_of

STAND_IN = Path(__file__).with_name("stand_in.py")
EAGLE3 = Speculation(Draft("eagle3", "builtin:tiny-eagle3"), "EAGLE3", 3, 1, 4)


def _spec(**changes: Any) -> ServerSpec:
    values: dict[str, Any] = {
        "id": "tiny/eagle3-s3k1d4/graph",
        "profile": "tiny",
        "source": Path("profiles/tiny.toml"),
        "device": "gpu",
        "target": Target("builtin:tiny"),
        "speculation": EAGLE3,
        "cuda_graphs": True,
        "graph_max_batch": None,
        "tp": 1,
        "dp": 1,
        "nnodes": 1,
        "context_length": None,
        "attention_backend": None,
        "max_running_requests": None,
        "mem_fraction_static": None,
        "skip_tokenizer": False,
        "args": (),
        "env": (),
        "acceptance_floor": None,
        "acceptance_ceiling": None,
        "boot_timeout_s": 60.0,
        "host": "127.0.0.1",
        "prompts": Prompts("builtin:tiny", 32, 128),
        "throughput": Throughput(16, 128, 1, 5, 0.05, True),
        "reference_id": None,
    }
    return ServerSpec(**{**values, **changes})


@pytest.fixture
def make_spec() -> Callable[..., ServerSpec]:
    """A server spec; keyword arguments replace its values."""
    return _spec


@pytest.fixture
def make_interpreter() -> Callable[[str], Interpreter]:
    return lambda version: Interpreter(
        Path("/opt/sg/bin/python"), Version(version), Path("/opt/sg")
    )


@pytest.fixture
def plan_stand_in(tmp_path: Path) -> Callable[..., Launch]:
    """The plan of a launch whose program is the stand-in, with the fault named first."""

    def plan(fault: str, *, caller: dict[str, str] | None = None, **changes: Any) -> Launch:
        spec = _spec(id=f"tiny/{fault}/cpu", device="cpu", **changes)
        port, name = free_port(), f"draftgate-test-{tmp_path.name}-{os.getpid()}"
        command = (
            *(sys.executable, str(STAND_IN), fault),
            *("--port", str(port), "--served-model-name", name, *spec.args),
        )
        environment = build_environment(
            spec, caller={"PATH": "/usr/bin:/bin", **(caller or {})}, served_model_name=name
        )
        secrets = secrets_of(environment.variables, command)
        return Launch(spec, command, environment, port, name, tmp_path / "art", (), secrets)

    return plan
