from __future__ import annotations

from dataclasses import replace

import pytest
from draftgate.gate.history import machine_changes, software_changes

SPEC = "tiny/eagle3-s3k1d4/cpu"


@pytest.fixture
def session(make_record):
    def session(*, environment=None, resolved=None, **changes):
        record = make_record(**changes)
        server = record.servers[SPEC]
        boot = replace(server.boots[0], environment=environment or {}, resolved=resolved or {})
        return replace(record, servers={**record.servers, SPEC: replace(server, boots=(boot,))})

    return session


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({}, {}, ()),
        (
            {"software": {"torch": "2.14.1", "triton": "3.8.0"}},
            {"software": {"torch": "2.15.0", "sglang-kernel": "0.4.10", "triton": "3.8.0"}},
            ("sglang-kernel (none) -> 0.4.10", "torch 2.14.1 -> 2.15.0"),
        ),
        ({"software": {"suite_commit": "aa"}}, {"software": {"suite_commit": "bb"}}, ()),
        (
            {"environment": {"OMP_NUM_THREADS": "1", "SGLANG_CACHE_DIR": "/home/a"}},
            {"environment": {"OMP_NUM_THREADS": "2", "SGLANG_X": "1"}},
            ("OMP_NUM_THREADS 1 -> 2", "SGLANG_X (none) -> 1"),
        ),
        (
            {"resolved": {"chunked_prefill_size": 2048, "random_seed": 1, "gone": 1}},
            {"resolved": {"chunked_prefill_size": 8192, "random_seed": 2, "new": 1}},
            ("chunked_prefill_size 2048 -> 8192",),
        ),
    ],
)
def test_what_changed_in_software_environment_and_arguments(session, before, now, expected):
    assert software_changes(session(**before), session(**now), SPEC) == expected


def test_what_changed_in_the_machine(make_record):
    now = make_record()
    before = replace(now, machine=replace(now.machine, driver="580.1", gpu_uuids=("GPU-aa",)))
    assert machine_changes(before, now) == ("driver 580.1 -> (none)", "gpu_uuids ('GPU-aa',) -> ()")
    assert machine_changes(now, now) == ()
