from __future__ import annotations

import pytest
from draftgate.measure.samples import Round, StepTimes, quartiles, step_times
from draftgate.probes.records import Step

ROUND = Round(seconds=2.0, tokens=100, verify_steps=40, server_s=1.9)


def steps(*walls: float | None) -> list[Step]:
    return [
        Step(1, wall, {"draft": 1.0 + place, "verify": 4.0, "extend": 0.5})
        for place, wall in enumerate(walls)
    ]


def test_quartiles_of_each_phase_and_of_the_steps_that_have_a_wall() -> None:
    times = step_times("cuda", steps(7.0, 8.0, 9.0, 10.0, None), ROUND)
    assert times.steps == 5
    assert times.phases_ms == {
        "draft": (2.0, 3.0, 4.0),
        "verify": (4.0, 4.0, 4.0),
        "extend": (0.5, 0.5, 0.5),
    }
    assert times.step_ms == (7.75, 8.5, 9.25)
    assert times.device_ms == 7.5
    assert times.gap_ms == 1.0
    assert times.round == ROUND


def test_without_two_steps_in_a_row_there_is_no_gap() -> None:
    times = step_times("host", steps(None), ROUND)
    assert (times.step_ms, times.gap_ms, times.device_ms) == (None, None, 5.5)


def test_no_step_has_a_reason_and_is_not_a_zero() -> None:
    times = step_times("host", [], ROUND)
    assert times.reason == "no decode step was timed"
    assert (times.device_ms, times.gap_ms) == (None, None)
    assert StepTimes(reason="why").device_ms is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [([3.0], (3.0, 3.0, 3.0)), ([1.0, 2.0], (1.25, 1.5, 1.75)), ([5, 1, 3], (2.0, 3.0, 4.0))],
)
def test_quartiles_lie_between_the_values(
    values: list[float], expected: tuple[float, float, float]
) -> None:
    assert quartiles(values) == expected
