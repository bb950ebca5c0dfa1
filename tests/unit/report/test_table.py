"""The verdict table: a red test of a server is seen in its row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.report.table import render_failures, render_table
from tests import states

SERVER = "tiny/eagle3-s3k1d4/eager"
TEST = "test_greedy_text_equals_no_speculation"


@pytest.fixture
def red_text():
    """A session whose only red is one that no column but the verdict is about."""
    record = states.green()
    server = record.servers[SERVER]
    failed = replace(
        server,
        outcomes={**server.outcomes, TEST: "failed"},
        messages={TEST: f"{SERVER}: 1 of 32 greedy texts differs"},
    )
    return replace(record, servers={**record.servers, SERVER: failed})


def test_a_red_test_is_seen_in_the_row_of_its_server(red_text):
    lines = render_table(red_text, width=124, color=False).splitlines()
    assert lines[0].split()[-1] == "verdict"
    assert max(map(len, lines)) <= 124
    assert [line.split()[-1] for line in lines[2:] if line.strip()] == [
        "red" if id_ == SERVER else "green" for id_ in red_text.servers
    ]


def test_the_failures_are_told_in_a_line_each(red_text):
    assert render_failures(red_text) == f"{SERVER} {TEST}: 1 of 32 greedy texts differs\n"
    assert render_failures(states.green()) == ""
