from __future__ import annotations

import time

import pytest
from draftgate.errors import BaselineError
from draftgate.report.history import append, history_file, points_of, read_history
from draftgate.report.page import render_page

from tests import states

LIMIT_S = 3.0


def test_each_session_adds_a_line_for_each_server(tmp_path):
    for index in (1, 0):
        path = append(states.night(index), tmp_path)
    assert path == tmp_path / "h200x1.jsonl"
    assert len(path.read_text().splitlines()) == 16
    assert read_history(path) == points_of(states.night(0)) + points_of(states.night(1))


def test_a_session_that_was_added_twice_counts_once(tmp_path):
    append(states.night(0), tmp_path)
    assert len(read_history(append(states.night(0), tmp_path))) == 8


def test_no_history_is_an_empty_one(tmp_path):
    assert read_history(history_file(tmp_path, "h200x1")) == []


@pytest.mark.parametrize("line", ['{"session": "a"', '{"session": "a"}', ""])
def test_a_bad_line_is_named(tmp_path, line):
    path = append(states.night(0), tmp_path)
    with path.open("a") as stream:
        stream.write(line + "\n")
    with pytest.raises(BaselineError, match=r"h200x1.jsonl, line 9: not a line of history.*delete"):
        read_history(path)


def test_500_sessions_render_in_under_3_s(tmp_path, record_property):
    """By this process's own time, so that a busy machine does not matter."""
    for index in range(500):
        path = append(states.night(index), tmp_path)
    record, accepted = states.green(), states.accepted_nights()
    begin = time.process_time()
    page = render_page(record, accepted=accepted, history=read_history(path))
    took = time.process_time() - begin
    record_property("render_500_sessions_s", round(took, 2))
    assert took < LIMIT_S
    assert len(page) < 500_000
