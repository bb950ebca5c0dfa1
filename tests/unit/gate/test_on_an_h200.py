"""Accepted sessions of an H200 against reruns and planted losses there (docs/gpu-noise.md)."""

from __future__ import annotations

from math import log
from pathlib import Path
from xml.etree import ElementTree

import pytest
from draftgate.catalog.select import load_profiles
from draftgate.gate.acceptance import judge_length
from draftgate.gate.paired import judge_pairs
from draftgate.gate.store import load_accepted
from draftgate.gate.throughput import judge_speed
from draftgate.measure.record import Record
from draftgate.measure.record_file import read_record
from draftgate.measure.verdict import Metric, Status

from tests.conftest import ROOT

SERVER = "llama-8b-shape/eagle3-s3k1d4/graph"
PASS, REGRESSION = Status.PASS, Status.REGRESSION


def recorded(name: str, kind: str = "json") -> Path:
    return ROOT / f"docs/records/h200x1-{name}-sglang-0.5.16.{kind}"


def of_llama(name: str) -> Record:
    return read_record(recorded(f"llama-8b-shape-{name}"))


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
    record = of_llama(name)
    accepted = load_accepted(ROOT / "docs/records/baselines/h200x1", [SERVER])
    assert len(accepted) == 5
    statuses = {v.metric: v.status for v in judge_speed(record, SERVER, accepted)}
    del statuses["speed-up"]  # no server without speculation ran
    assert statuses == {
        "throughput": tok_s,
        "step-rate": steps_s,
        "device-step-rate": device,
    }


def test_another_card_is_not_compared() -> None:
    accepted = load_accepted(ROOT / "docs/records/baselines/h200x1", [SERVER])
    verdicts = {v.metric: v.status for v in judge_speed(of_llama("whole"), SERVER, accepted)}
    # The accepted sessions ran no server without speculation.
    assert verdicts.pop("speed-up") is Status.RECORDING
    assert set(verdicts.values()) == {Status.NOT_COMPARABLE}


def test_three_pairs_of_boots_show_two_more_steps() -> None:
    sides = [of_llama(f"ab-{side}").servers.values() for side in ("reference", "candidate")]
    (reference,), (candidate,) = sides
    ratios = [
        log(b.tok_s / a.tok_s)
        for a, b in zip(reference.throughputs, candidate.throughputs, strict=True)
    ]
    verdict = judge_pairs(Metric.THROUGHPUT, ratios)
    assert verdict.status is REGRESSION
    assert verdict.effect == pytest.approx(-0.065, abs=0.001)


def test_smollm2_accepts_what_its_floors_ask_for_and_not_much_more() -> None:
    record = read_record(recorded("smollm2"))
    drafted = {
        spec.id: (spec, spec.speculation)
        for spec in load_profiles()["smollm2"].servers
        if spec.device == "gpu" and spec.speculation is not None
    }
    assert drafted.keys() == {id_ for id_, server in record.servers.items() if server.draft}
    for id_, (spec, speculation) in drafted.items():
        sample = record.servers[id_].last.acceptance
        assert sample is not None
        assert len(sample.prompts) == 90
        floors = dict(spec.category_floors)
        verdict = judge_length(
            sample,
            num_steps=speculation.num_steps,
            floor=spec.acceptance_floor,
            ceiling=None,
            category_floors=floors,
        )
        assert verdict.status is PASS, verdict
        assert spec.acceptance_floor > 0.85 * sample.length
        if (speculation.num_steps, speculation.topk) == (3, 1):
            for name, length in sample.length_by_category.items():
                assert floors[name] > 0.85 * length, name


ASKING = ("text", "cached", "next_turn", "throughput", "fc_is_fed")
"""Tests in which the servers generate."""


@pytest.mark.parametrize(
    ("name", "boots_s", "generation_s", "share"),
    # Chat prompts were rendered anew for each server of smollm2.
    [("llama-8b-shape-whole", 222, 135, 1.03), ("smollm2", 399, 369, 1.13)],
)
def test_where_the_time_of_a_whole_run_went(
    name: str, boots_s: int, generation_s: int, share: float
) -> None:
    record = read_record(recorded(name))
    cases = ElementTree.parse(recorded(name, "xml")).iter("testcase")
    generation = sum(
        float(case.attrib["time"])
        for case in cases
        if any(word in case.attrib["name"] for word in ASKING)
    )
    boots = sum(boot.boot_s or 0 for server in record.servers.values() for boot in server.boots)
    assert (round(boots), round(generation)) == (boots_s, generation_s)
    assert round(record.duration_s / (boots + generation), 2) == share
