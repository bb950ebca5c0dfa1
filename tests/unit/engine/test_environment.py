from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from draftgate.catalog.spec import ServerSpec
from draftgate.engine.environment import ServerEnvironment, build_environment

MakeSpec = Callable[..., ServerSpec]


def build(spec: ServerSpec, **given: Any) -> ServerEnvironment:
    return build_environment(spec, **{"overlays": (), "extra": {}, "visible_devices": (), **given})


def test_switches_of_the_caller_never_reach_the_server(make_spec: MakeSpec) -> None:
    switches = {
        "SGLANG_SIMULATE_ACC_LEN": "3.5",
        "SIMULATE_ACC_LEN": "3.5",
        "SGLANG_SIMULATE_ACC_METHOD": "multinomial",
        "SGLANG_IS_IN_CI": "true",
        "SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK": "1",
        "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1",
        "PYTEST_CURRENT_TEST": "x",
        "PYTHONSTARTUP": "/home/me/.pythonrc",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_LAUNCH_BLOCKING": "1",
    }
    kept = {"PATH": "/usr/bin", "HF_HOME": "/hf", "SGLANG_CACHE_DIR": "/c", "HTTP_PROXY": "p:1"}
    built = build(make_spec(), caller={**switches, **kept}, served_model_name="draftgate-1")
    assert built.dropped == tuple(sorted(switches))
    assert dict(built.variables) == {
        **kept,
        "DRAFTGATE_LAUNCH": "draftgate-1",
        "PYTHONUNBUFFERED": "1",
        "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0",
        "CUDA_VISIBLE_DEVICES": "",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def test_the_spec_has_the_last_word(make_spec: MakeSpec) -> None:
    built = build(
        make_spec(env=(("SGLANG_SIMULATE_ACC_LEN", "3.5"), ("PYTHONUNBUFFERED", "0"))),
        caller={"SGLANG_SIMULATE_ACC_LEN": "2.0"},
        served_model_name="draftgate-1",
        extra={"SGLANG_SIMULATE_ACC_LEN": "1.0", "OTHER": "x"},
    )
    assert built.variables["SGLANG_SIMULATE_ACC_LEN"] == "3.5"
    assert built.variables["PYTHONUNBUFFERED"] == "0"
    assert built.added["OTHER"] == "x"


def test_overlays_come_before_the_callers_own_path(make_spec: MakeSpec) -> None:
    overlays = (Path("/probes"), Path("/cpu"))
    with_own = build(
        make_spec(),
        caller={"PYTHONPATH": "/site/sglang"},
        served_model_name="n",
        overlays=overlays,
    )
    assert with_own.variables["PYTHONPATH"].split(os.pathsep) == ["/probes", "/cpu", "/site/sglang"]
    without = build(make_spec(), caller={}, served_model_name="n", overlays=overlays)
    assert without.variables["PYTHONPATH"].split(os.pathsep) == ["/probes", "/cpu"]
    untouched = build(make_spec(), caller={"PYTHONPATH": "/site/sglang"}, served_model_name="n")
    assert untouched.variables["PYTHONPATH"] == "/site/sglang"


def test_only_the_leased_gpus_are_visible(make_spec: MakeSpec) -> None:
    caller = {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    leased = build(make_spec(), caller=caller, served_model_name="n", visible_devices=("2", "3"))
    assert leased.variables["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert leased.variables["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    hidden = build(make_spec(), caller=caller, served_model_name="n", visible_devices=())
    assert hidden.variables["CUDA_VISIBLE_DEVICES"] == ""
