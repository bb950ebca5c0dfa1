from __future__ import annotations

from dataclasses import replace

import pytest
from draftgate.measure.samples import Round, StepTimes
from draftgate.report.figures.acceptance import shares_by_position
from draftgate.report.figures.phases import step_figure
from draftgate.report.figures.speed import break_even_figure, tok_s_figure
from draftgate.report.figures.svg import scale, shorten, ticks
from draftgate.report.rows import rows_of

from tests import states


def test_shares_by_position():
    # 10 steps: 1 got nothing right, 2 one token, 3 two, 4 all three.
    assert shares_by_position((1, 2, 3, 4)) == [0.9, 0.7, 0.4]
    assert shares_by_position(()) == []


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 900, [0, 500]), (1, 5, [1, 2, 3, 4, 5]), (-0.11, 0.05, [-0.1, -0.05, 0, 0.05])],
)
def test_ticks_are_round(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected)


def test_scale_of_a_single_value():
    assert scale(3, 3, 0, 100)(3) == 0


def test_a_long_name_keeps_both_ends():
    assert shorten("eagle3-s3k1d4/graph") == "eagle3-s3k1d4/graph"
    assert shorten("eagle3-specbundle-s5k1d6/tp8-eager") == "eagle3-specbu…p8-eager"


def test_a_speed_is_drawn_against_its_band():
    green = tok_s_figure(rows_of(states.green())).__html__()
    assert "tiny" not in green  # the section says it
    assert "; baseline 840.2, limit 823.4" in green
    assert 'class="cross"' not in green
    assert tok_s_figure(rows_of(states.red())).__html__().count('class="cross"') == 1
    unjudged = tok_s_figure(rows_of(states.real())).__html__()
    assert 'class="band"' not in unjudged
    assert "none/graph: 620.9 tok/s" in unjudged


def test_break_even_of_each_server():
    drawing = break_even_figure(rows_of(states.real())).__html__()
    # 512 tokens in 109 verify steps at 0.99 times the speed: 4.697 / 0.99.
    assert "eagle3-s5k1d6/graph: 0.99× at 4.697 tokens/step; breaks even at 4.74" in drawing
    assert break_even_figure([]) is None


NONE, SPEC = "tiny/none/graph", "tiny/eagle3-s3k1d4/graph"


def timed(step_ms, reason=None, **phases_ms):
    return StepTimes(
        steps=400,
        clock="cuda",
        phases_ms={name: (ms, ms, ms) for name, ms in phases_ms.items()},
        step_ms=(step_ms, step_ms, step_ms) if step_ms else None,
        round=Round(1.0, 500, 200, None),
        reason=reason,
    )


def with_step_times(**by_server):
    """The real session, these of its servers with times of their steps."""
    record = states.real()
    servers = dict(record.servers)
    for id_, times in ((NONE, by_server.get("none")), (SPEC, by_server.get("spec"))):
        boot = replace(servers[id_].last, step_times=times)
        servers[id_] = replace(servers[id_], boots=(boot,))
    return replace(record, servers=servers)


def test_a_step_is_stacked_by_phase_and_the_host_has_the_rest():
    record = with_step_times(
        none=timed(1.5, decode=1.0), spec=timed(4.0, draft=1.0, verify=1.5, extend=0.5)
    )
    drawing, legend = step_figure(rows_of(record))
    text = drawing.__html__()
    assert "none/graph: 1.50 ms = decode 1.00 + host 0.50" in text
    assert "4.00 ms = draft 1.00 + verify 1.50 + extend 0.50 + host 1.00" in text
    assert text.count("<rect") == 6
    # 178 units for 4.08 ms, less half a unit that tells neighbours apart.
    assert 'width="64.9" height="12" class="p0"><title>verify: 1.50 ms</title>' in text
    assert [name for _, name in legend][0::3] == ["draft", "host"]


def test_a_host_that_is_hidden_by_the_device_is_not_drawn():
    text = step_figure(rows_of(with_step_times(spec=timed(1.9, verify=2.0))))[0].__html__()
    assert text.count("<rect") == 1


def test_without_timed_steps_there_is_no_figure():
    assert step_figure(rows_of(states.real())) == (None, [])
    untimed = with_step_times(spec=StepTimes(reason="no timer"))
    assert step_figure(rows_of(untimed)) == (None, [])


def test_steps_in_words():
    record = with_step_times(
        none=StepTimes(reason="it carries no timer"), spec=timed(4.0, verify=3.0)
    )
    rows = {row.id: row.step for row in rows_of(record)}
    assert rows[NONE] == "phases: not measured: it carries no timer"
    speed = record.servers[SPEC].last.throughput.tok_s
    assert rows[SPEC] == (
        "a step: 4.00 ms = verify 3.00 + host 1.00; 400 steps in a round of 500.0 tok/s "
        f"({500 / speed - 1:+.1%} against the timed rounds)"
    )
    assert rows["tiny/eagle3-s5k1d6/graph"] == ""
