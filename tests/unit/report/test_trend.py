from __future__ import annotations

import sys
from dataclasses import replace
from random import Random

import pytest
from draftgate.cli import main
from draftgate.errors import SettingsError
from draftgate.report.history import append
from draftgate.report.trend import render_trends, trends_of

from tests import states

SERVER = "tiny/eagle3-s3k1d4/graph"


def series(*values):
    """One server's points, a night each, at these speeds."""
    (first,) = (p for p in states.history_of(1) if p.server == SERVER)
    return [
        replace(
            first,
            session=f"s{i:03}",
            started_utc=f"2026-{1 + i // 28:02}-{1 + i % 28:02}T00:00:00+00:00",
            tok_s=value,
            speed_up=None,
            acceptance_length=None,
        )
        for i, value in enumerate(values)
    ]


def noise(count, mean=800.0, spread=0.01, seed=0):
    scatter = Random(seed)
    return [mean * (1 + scatter.gauss(0, spread)) for _ in range(count)]


def test_a_step_is_found_where_it_is():
    (trend,) = trends_of(series(*noise(40), *noise(20, mean=752, seed=1)))
    (change,) = trend.changes
    assert change.at.session == "s040"
    assert change.after / change.before - 1 == pytest.approx(-0.06, abs=0.01)
    assert trend.drift is None
    said = render_trends([trend])
    assert "-6." in said or "-5." in said
    assert "s040" in said


def test_noise_is_no_trend():
    quiet = [trends_of(series(*noise(60, seed=seed)))[0] for seed in range(100)]
    false = [trend for trend in quiet if trend.changes]
    assert len(false) <= 5


def test_drift_without_a_step():
    (trend,) = trends_of(series(*(800 * (1 - 0.0006 * i) for i in range(30))))
    assert trend.changes == ()
    assert trend.drift == pytest.approx(-0.018, abs=0.001)
    assert "drifts by -1.8% in 30 days" in render_trends([trend])


def test_a_short_series_says_nothing():
    assert trends_of(series(*noise(7))) == []


def test_without_series_the_sessions_that_are_needed_are_told():
    assert render_trends([]) == (
        "no server was measured in 8 sessions yet; of fewer, nothing is said"
    )


def test_the_command(tmp_path, capsys):
    for index in range(24):
        slower = {SERVER: 0.1} if index >= 12 else {}
        append(states.night(index, slower=slower), tmp_path)
    assert main(["trend", "--history", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("h200x1\n")
    assert f"at {states.night(12).session}" in said
    assert "advice, not a verdict" in said


def test_without_history_or_ruptures(tmp_path, capsys, monkeypatch):
    assert main(["trend", "--history", str(tmp_path)]) == 0
    assert "holds no history" in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "ruptures", None)
    with pytest.raises(SettingsError, match=r"pip install 'draftgate\[trend\]'"):
        trends_of(series(*noise(20)))
