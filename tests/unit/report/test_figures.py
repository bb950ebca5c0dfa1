from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.report.figures.acceptance import lengths_by_category, shares_by_position
from fixtures.report.figures.speed import break_even_figure, tok_s_figure
from fixtures.report.figures.svg import scale, shorten, ticks
from fixtures.report.rows import rows_of
from tests import states


def test_shares_by_position():
    # 10 steps: 1 got nothing right, 2 one token, 3 two, 4 all three.
    assert shares_by_position((1, 2, 3, 4)) == [0.9, 0.7, 0.4]
    assert shares_by_position(()) == []


def test_lengths_by_category_are_ratios_of_sums():
    sample = states.real().servers["tiny/eagle3-s3k1d4/graph"].last.acceptance
    a, b, c = (
        replace(p, category=name, verify_steps=steps)
        for p, name, steps in zip(sample.prompts, ("math", "math", ""), (32, 64, 1), strict=False)
    )
    assert lengths_by_category(replace(sample, prompts=(a, b, c))) == {"math": 256 / 96}


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
