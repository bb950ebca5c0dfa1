from __future__ import annotations

import os
from collections.abc import Sequence

import pytest
from draftgate.catalog.spec import Throughput
from draftgate.gate.throughput import boot_problems
from draftgate.measure.machine import Machine
from draftgate.measure.record import (
    SCHEMA,
    BootRecord,
    ModelIdentity,
    Record,
    ServerRecord,
)
from draftgate.measure.samples import AcceptanceSample, PromptSample, Round, ThroughputSample
from draftgate.measure.verdict import Metric, Status
from hypothesis import HealthCheck, settings

from tests.asked import SPECULATION, asked

# Two workers, each with PyTorch's threads on all cores, wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A busy machine is slow, and a factory fixture holds no state between examples.
settings.register_profile(
    "draftgate", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("draftgate")

NONE, SPEC = "tiny/none/cpu", "tiny/eagle3-s3k1d4/cpu"
MACHINE = Machine("cpu-x-x2", "cpu", "x", 2, 24, (), (), None, host="h0")
SOFTWARE = {"sglang": "0.5.23", "torch": "2.14.1", "suite_commit": "aa"}
TOKENS = 512
SOUND = tuple(
    metric.verdict(Status.PASS)
    for metric in (Metric.FLAGS, Metric.WIDTH, Metric.LAYERS, Metric.ACCEPTANCE_LENGTH)
)


def throughput(tok_s: Sequence[float], length: float | None, settled=True) -> ThroughputSample:
    """One boot whose rounds ran at these speeds, with this acceptance length."""
    steps = None if length is None else round(TOKENS / length)
    rounds = tuple(Round(TOKENS / speed, TOKENS, steps, None) for speed in tok_s)
    return ThroughputSample((), rounds, settled, 1, 64, 8, "aa")


def acceptance(*steps: int) -> AcceptanceSample:
    """One run whose prompts took these verify steps for 128 tokens each."""
    prompts = tuple(PromptSample(f"p{i}", 128, s, 0, "") for i, s in enumerate(steps))
    return AcceptanceSample(prompts, 128, 8, "aa", None)


@pytest.fixture
def make_record():
    """A session of two servers: speeds by boot, everything else equal unless given."""

    def make(
        name="now",
        *,
        none=(100.0,),
        spec=(200.0,),
        length=3.5,
        runs=None,
        settled=True,
        machine=MACHINE,
        software=SOFTWARE,
        resolved=None,
        accepted=None,
        draft="d0",
        gated=True,
        floor=3.4,
        outcomes=None,
        started="2026-01-01T00:00:00+00:00",
    ) -> Record:
        servers = {}
        for id_, speeds in ((NONE, none), (SPEC, spec)):
            speculating = id_ == SPEC
            boots = []
            for index, speed in enumerate(speeds):
                rounds = speed if isinstance(speed, tuple) else (speed,) * 3
                sample = throughput(rounds, length if speculating else None, settled)
                boots.append(
                    BootRecord(
                        index,
                        resolved={"attention_backend": "fa3", "page_size": 1, **(resolved or {})},
                        throughput=sample,
                        acceptance=(runs or acceptance(36, 37, 38)) if speculating else None,
                        invalid=boot_problems(sample),
                    )
                )
            if speeds:
                servers[id_] = ServerRecord(
                    id_,
                    asked(
                        speculation=SPECULATION if speculating else None,
                        reference_id=NONE if speculating else None,
                        throughput=Throughput(8, 64, 1, 3, gated=gated),
                        acceptance_floor=floor if speculating else None,
                    ),
                    target=ModelIdentity("t", "t0", "t1"),
                    draft=ModelIdentity("d", draft, "d1") if speculating else None,
                    boots=tuple(boots),
                    outcomes={"speed": "passed"} if outcomes is None else outcomes,
                    verdicts=SOUND,
                )
        return Record(
            schema=SCHEMA,
            session=name,
            started_utc=started,
            duration_s=1.0,
            machine=machine,
            software=dict(software),
            servers=servers,
            first_launch_s=None,
            not_measured={},
            accepted=accepted,
        )

    return make


@pytest.fixture
def history(make_record):
    """Accepted sessions whose speeds differ by the given percentages from 100 and 200 tok/s."""

    def make(*percent: float, **common) -> list[Record]:
        return [
            make_record(
                f"s{i:03}",
                none=(100 * (1 + p / 100),),
                spec=(200 * (1 + p / 100),),
                started=f"2025-01-01T00:{i:02}:00+00:00",
                **common,
            )
            for i, p in enumerate(percent)
        ]

    return make
