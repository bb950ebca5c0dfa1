"""The verdict table: a red test of a server is seen in its row."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fixtures.report.page import render_page
from fixtures.report.table import render_failures, render_table
from tests import states

SERVER, REFERENCE = "tiny/eagle3-s3k1d4/eager", "tiny/none/eager"
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


def cells(record, spec_id):
    lines = render_table(record, width=124, color=False).splitlines()
    (line,) = (line for line in lines if line.startswith(f"{spec_id} "))
    return re.split(r"  +", line.strip())


def test_a_server_that_never_booted_is_not_called_unstable():
    record = states.judged(states.red(), states.accepted_nights())
    assert cells(record, states.NOT_BOOTED)[-2:] == ["not booted", "red"]


def test_numbers_of_a_boot_that_may_not_be_judged_are_marked():
    record = states.green()
    none, plain = record.servers[REFERENCE], record.servers[SERVER]
    noisy = replace(none, boots=(replace(none.last, invalid=("warm-up rounds never agreed",)),))
    assert cells(record, SERVER)[-4:-2] == [f"{plain.tok_s:.1f}", "1.05x"]
    record = replace(record, servers={**record.servers, REFERENCE: noisy})
    assert cells(record, REFERENCE)[2].startswith(f"~{none.tok_s:.1f}")
    assert cells(record, SERVER)[-4:-2] == [f"{plain.tok_s:.1f}", "~1.05x"]
    page = render_page(record)
    assert page.count('class="hollow"') >= 3  # its tok/s, and two speed-ups over it
    assert "Hollow, or ~: a boot of it may not be judged." in page
    assert "Hollow, or ~" not in render_page(states.green())


def test_the_failures_are_told_in_a_line_each(red_text):
    assert render_failures(red_text) == f"{SERVER} {TEST}: 1 of 32 greedy texts differs\n"
    assert render_failures(states.green()) == ""
