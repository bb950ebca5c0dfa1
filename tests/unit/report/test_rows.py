"""The mark of a server and the headline of a session: green says that all of it was judged."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from draftgate.catalog.select import load_profiles
from draftgate.plugin import choice
from draftgate.report.ci import render_markdown
from draftgate.report.history import points_of
from draftgate.report.rows import Mark, headline, mark_of

from tests import states

SERVER = "tiny/eagle3-s3k1d4/eager"
LOST = "tiny/lost/graph"


def with_outcomes(record, **outcomes):
    server = replace(record.servers[SERVER], verdicts=(), outcomes=outcomes)
    return replace(record, servers={SERVER: server})


@pytest.mark.parametrize(
    ("outcomes", "mark"),
    [
        ({"test_mine::test_it": "passed"}, Mark.OPEN),
        ({"pair": "passed", "test_mine::test_it": "passed"}, Mark.OPEN),
        ({"pair": "passed"}, Mark.OPEN),
        ({"flags": "passed", "test_mine::test_it": "passed"}, Mark.GREEN),
        ({"test_mine::test_it": "failed"}, Mark.RED),
    ],
)
def test_green_is_a_server_that_the_suite_judged(outcomes, mark):
    record = with_outcomes(states.green(), **outcomes)
    assert mark_of(record.servers[SERVER]) is headline(record)[0] is mark
    assert points_of(record)[0].mark == mark.value


@pytest.mark.parametrize(
    ("why", "sentence"),
    [
        ("no worker of pytest-xdist ran it to its end", "Nothing is red; 1 server not measured."),
        ("needs SGLang >=0.5.22, here is 0.5.16", "Nothing is red; 1 server not measured."),
        ("needs 8 GPUs, 1 visible", "Nothing is red; 1 server not measured."),
        ("needs 8 GPUs, none visible", "8 servers, all green."),
    ],
)
def test_a_chosen_server_that_was_not_measured_is_named(why, sentence):
    record = replace(states.green(), not_measured={LOST: why})
    assert headline(record)[1] == sentence
    assert sentence in render_markdown(record).splitlines()[0]


def test_it_is_named_beside_what_was_judged_in_part():
    lost = {LOST: "no worker of pytest-xdist ran it to its end"}
    record = replace(with_outcomes(states.green(), pair="passed"), not_measured=lost)
    assert headline(record) == (
        Mark.OPEN,
        "Nothing is red; 1 of 1 server not judged in full; 1 not measured.",
    )


@pytest.mark.parametrize(("gpus", "other"), [(0, "gpu"), (1, "cpu")])
def test_servers_of_the_other_device_are_expected_to_be_missing(monkeypatch, gpus, other):
    specs = load_profiles(())["tiny"].servers
    monkeypatch.setattr(choice, "specs_of", lambda _: specs)
    _, why, _ = choice.runnable([], gpus, SimpleNamespace(sglang_version="0.5.23"), {})
    assert why.keys() == {spec.id for spec in specs if spec.device == other}
    record = replace(states.green(), not_measured=why)
    record = replace(record, servers={f"{id_}/x": server for id_, server in record.servers.items()})
    assert headline(record)[1] == "8 servers, all green."
