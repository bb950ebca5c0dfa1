from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from draftgate.catalog.spec import ServerSpec
from draftgate.engine.interpreter import Interpreter, inspect_interpreter
from draftgate.engine.plan import Launch, plan_launch
from draftgate.models.location import locate
from packaging.version import Version

from tests.specs import spec_of


@pytest.fixture
def make_spec() -> Callable[..., ServerSpec]:
    """A server spec; keyword arguments replace its values."""
    return spec_of


@pytest.fixture
def make_interpreter() -> Callable[[str], Interpreter]:
    return lambda version: Interpreter(
        Path("/opt/sg/bin/python"), Version(version), Path("/opt/sg")
    )


@pytest.fixture
def plan_stand_in(tmp_path: Path, fake_sglang: Path) -> Callable[..., Launch]:
    """The plan of a launch of the stand-in with a fault; keyword arguments change its spec."""

    def plan(fault: str, **changes: Any) -> Launch:
        spec = spec_of(
            id=f"tiny/{fault}/cpu",
            device="cpu",
            env=(("FAKE_SGLANG_FAULT", fault),),
            **{"speculation": None, **changes},
        )
        return plan_launch(
            spec,
            interpreter=inspect_interpreter(fake_sglang),
            target_path=str(locate("builtin:tiny").folder),
            draft_path=None,
            artifacts=tmp_path / "art",
        )

    return plan
