from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from draftgate.catalog.spec import ServerSpec
from draftgate.cpu_engine import SITE
from draftgate.engine.gpus import Gpu
from draftgate.engine.interpreter import Interpreter
from draftgate.engine.plan import Launch, plan_launch
from draftgate.errors import DeviceError
from packaging.version import Version

from tests.specs import value_after

INTERPRETER = Interpreter(Path(sys.executable), Version("0.5.23"), Path(sys.prefix))


def plan(spec: ServerSpec, tmp_path: Path, gpus: tuple[Gpu, ...] = ()) -> Launch:
    return plan_launch(
        spec,
        interpreter=INTERPRETER,
        target_path="/m/target",
        draft_path="/m/draft",
        artifacts=tmp_path,
        overlays=(Path("/probes"),),
        gpus=gpus,
    )


def test_a_cpu_server_gets_the_cpu_engine_and_no_gpu(
    make_spec: Callable[..., ServerSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/own")
    planned = plan(make_spec(device="cpu"), tmp_path)
    variables = planned.environment.variables
    assert variables["PYTHONPATH"] == f"/probes:{SITE}:/own"
    assert variables["SGLANG_USE_CPU_ENGINE"] == "1"
    assert variables["CUDA_VISIBLE_DEVICES"] == ""
    assert value_after(planned.command, "--device") == "cpu"
    assert value_after(planned.command, "--port") == str(planned.port)


def test_a_gpu_server_sees_what_was_leased_and_nothing_of_the_cpu_engine(
    make_spec: Callable[..., ServerSpec], tmp_path: Path
) -> None:
    gpus = (Gpu(2, "GPU-2", "H200", 1, "2"), Gpu(5, "GPU-5", "H200", 1, "5"))
    planned = plan(make_spec(tp=2), tmp_path, gpus)
    variables = planned.environment.variables
    assert variables["CUDA_VISIBLE_DEVICES"] == "2,5"
    assert str(SITE) not in variables["PYTHONPATH"]
    assert "SGLANG_USE_CPU_ENGINE" not in variables
    assert "--device" not in planned.command


def test_too_few_gpus_are_an_error_before_anything_starts(
    make_spec: Callable[..., ServerSpec], tmp_path: Path
) -> None:
    with pytest.raises(DeviceError, match=r"needs 8 GPU\(s\) .* and has 1\."):
        plan(make_spec(tp=8), tmp_path, (Gpu(0, "GPU-0", "H200", 1, "0"),))


def test_each_launch_has_its_own_name_and_the_callers_key(
    make_spec: Callable[..., ServerSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAFTGATE_API_KEY", "k-123456")
    first, second = (plan(make_spec(device="cpu"), tmp_path) for _ in range(2))
    assert first.served_model_name != second.served_model_name
    assert first.api_key == "k-123456"
    assert "k-123456" in first.secrets
    assert "DRAFTGATE_API_KEY" not in first.environment.variables
