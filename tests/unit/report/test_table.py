"""The verdict table: a red test of a server is seen in its row."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest
from draftgate.report.page import render_page
from draftgate.report.table import render_failures, render_table

from tests import states

SERVER, REFERENCE = "tiny/eagle3-s3k1d4/eager", "tiny/none/eager"
CHECK = "text"


@pytest.fixture
def red_text():
    """A session whose only red is one that no column but the verdict is about."""
    record = states.green()
    server = record.servers[SERVER]
    failed = replace(
        server,
        outcomes={**server.outcomes, CHECK: "failed"},
        messages={CHECK: states.message(SERVER, f"{SERVER}: 1 of 32 greedy texts differs")},
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
    assert render_failures(red_text) == f"{SERVER} {CHECK}: 1 of 32 greedy texts differs\n"
    assert render_failures(states.green()) == ""


def test_acceptance_by_category_is_a_table_of_its_own():
    record = states.green()
    assert "AL by category" not in render_table(record, width=124, color=False)
    server = record.servers[SERVER]
    sample = server.last.acceptance
    steps = {"stem": 16, "coding[/b]": 15}  # no markup
    prompts = tuple(
        replace(prompt, category=name, tokens=32, verify_steps=steps[name])
        for prompt, name in zip(sample.prompts, itertools.cycle(steps), strict=False)
    )
    boot = replace(server.last, acceptance=replace(sample, prompts=prompts))
    spec = replace(server.spec, category_floors={"stem": 2.1, "coding[/b]": 2.1})
    judged = replace(server, boots=(boot,), spec=spec)
    record = replace(record, servers={**record.servers, SERVER: judged})
    lines = render_table(record, width=124, color=False).splitlines()
    heading = next(i for i, line in enumerate(lines) if line.startswith("AL by category"))
    assert lines[heading].split() == ["AL", "by", "category", "stem", "coding[/b]"]
    assert [line.split() for line in lines[heading + 2 :]] == [[SERVER, "2.00", "2.13"]]
    colored = render_table(record, width=124, color=True)
    assert "\x1b[1;31m2.00" in colored.replace("\x1b[1;31m \x1b[0m", "")
    assert "\x1b[1;31m2.13" not in colored
