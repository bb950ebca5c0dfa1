from __future__ import annotations

import math
from dataclasses import replace

import pytest
from draftgate.gate.throughput import boot_problems
from draftgate.measure.samples import Round, ThroughputSample
from draftgate.measure.telemetry import Telemetry


def sample(*seconds: float) -> ThroughputSample:
    return ThroughputSample(
        (), tuple(Round(s, 512, None, None) for s in seconds), True, 1, 64, 8, ""
    )


SLOWED = Telemetry(9, (1200, 1980, 1980), (500, 690), 61, ("power brake",))


def test_sound_rounds_have_no_problem():
    assert boot_problems(sample(1.0, 1.1, 0.9)) == ()
    assert boot_problems(sample(1.0, 2.0, 1.0)) == ()  # the median bears one odd round


@pytest.mark.parametrize(
    ("rounds", "words"),
    [
        (sample(), "no measurement"),
        (sample(1.0, math.nan), "no measurement"),
        (sample(1.0, -0.1), "no measurement"),  # what a clock set back would give
        (sample(1.0, 0.0), "no measurement"),
        (sample(2.0, 1.0, 1.0), "the first round took 2.00 s, the median 1.00 s"),
        (replace(sample(1.0), settled=False), "never agreed"),
        (replace(sample(1.0), telemetry=SLOWED), "slowed meanwhile: power brake"),
        (replace(sample(1.0), rounds=(Round(1.0, 0, None, None),)), "no token"),
    ],
)
def test_what_makes_a_boot_invalid(rounds, words):
    assert words in boot_problems(rounds)[0]


def test_a_late_first_round_has_two_possible_causes_and_the_load_is_told():
    late = sample(2.0, 1.0, 1.0)
    told = "the first round took 2.00 s, the median 1.00 s: something was still compiled, or others"
    assert boot_problems(late) == (f"{told} used the machine",)
    busy = replace(late, load=9.31, settled=False)
    assert boot_problems(busy) == (
        "warm-up rounds never agreed (load average here: 9.3)",
        f"{told} used the machine (load average here: 9.3)",
    )
