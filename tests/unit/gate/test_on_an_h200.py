"""Accepted sessions of an H200 against reruns and planted losses there (docs/gpu-noise.md)."""

from __future__ import annotations

import pytest

from fixtures.gate.store import load_accepted
from fixtures.gate.throughput import judge_speed
from fixtures.gate.verdict import Status
from fixtures.measure.record_file import read_record
from tests.conftest import ROOT

SERVER = "llama-8b-shape/eagle3-s3k1d4/graph"
PASS, REGRESSION = Status.PASS, Status.REGRESSION


@pytest.mark.parametrize(
    ("name", "tok_s", "steps_s", "device"),
    [
        ("rerun-1", PASS, PASS, PASS),
        ("rerun-2", PASS, PASS, PASS),
        # 10 % more of the device's time in each step: tok/s of five sessions does not show it.
        ("planted-slow", PASS, PASS, REGRESSION),
        # 2.25 instead of 2.5 tokens accepted in each step, which take as long as before.
        ("planted-fewer", REGRESSION, PASS, PASS),
        ("planted-eager", REGRESSION, REGRESSION, REGRESSION),
    ],
)
def test_reruns_pass_and_each_loss_is_seen_where_it_is(
    name: str, tok_s: Status, steps_s: Status, device: Status
) -> None:
    record = read_record(ROOT / f"docs/records/h200x1-llama-8b-shape-{name}-sglang-0.5.16.json")
    accepted = load_accepted(ROOT / "docs/records/baselines/h200x1", [SERVER])
    assert len(accepted) == 5
    statuses = {v.metric: v.status for v in judge_speed(record, SERVER, accepted)}
    del statuses["speed-up"]  # no server without speculation ran
    assert statuses == {
        "throughput": tok_s,
        "verify steps": steps_s,
        "device time per step": device,
    }
