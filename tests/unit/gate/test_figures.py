"""Figures of a user's own tests: judged as speeds are, accepted with them, shown by name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from draftgate.errors import BaselineError, MeasurementError
from draftgate.gate.accept import accept_record
from draftgate.gate.figures import judge_figure
from draftgate.measure.record import OwnFigure
from draftgate.measure.record_file import write_record
from draftgate.measure.verdict import Status
from draftgate.plugin.own import _checked
from draftgate.report.baselines import render_baselines
from draftgate.report.ci import render_markdown
from draftgate.report.page import render_page
from draftgate.report.rows import Mark, own_rows_of, rows_of
from draftgate.report.table import render_table

from tests.unit.conftest import NONE

CHECK = "test_mine::test_cost"
PAST = (10.0, 10.1, 9.95, 10.02, 10.05)


@pytest.fixture
def session(make_record):
    """A session whose only server has these figures, one a boot."""

    def make(name, *values, less=True, gate=True):
        minute = name.removeprefix("s") if name.startswith("s") else "59"
        record = make_record(
            name, none=(100.0,) * len(values), spec=(), started=f"2026-01-01T00:{minute}:00+00:00"
        )
        server = record.servers[NONE]
        boots = tuple(
            replace(boot, figures=(OwnFigure(CHECK, "cost", value, "ms", not less, gate),))
            for boot, value in zip(server.boots, values, strict=True)
        )
        outcomes = {"speed": "passed", CHECK: "passed"}
        server = replace(server, boots=boots, outcomes=outcomes)
        return replace(record, servers={NONE: server})

    return make


def judged(record, accepted):
    (figure,) = record.servers[NONE].boots[0].figures
    return judge_figure(record, NONE, figure, accepted)


@pytest.mark.parametrize(
    ("value", "less", "status"),
    [
        (10.03, True, Status.PASS),
        (12.0, True, Status.REGRESSION),
        (8.0, True, Status.IMPROVED),
        (12.0, False, Status.IMPROVED),
        (8.0, False, Status.REGRESSION),
    ],
)
def test_the_direction_that_is_worse_is_red(session, value, less, status):
    past = [session(f"s{i:02}", cost, less=less) for i, cost in enumerate(PAST)]
    verdict = judged(session("now", value, less=less), past)
    assert verdict.status is status
    assert verdict.value == pytest.approx(value)
    assert verdict.effect == pytest.approx(value / 10.024 - 1, abs=1e-3)
    low, high = verdict.interval
    assert low < verdict.effect < high
    assert (verdict.limit > 10.1) is less
    assert (verdict.metric, verdict.check, verdict.unit) == ("cost", CHECK, "ms")


def test_a_red_figure_names_its_test_and_the_remedy(session):
    past = [session(f"s{i:02}", cost) for i, cost in enumerate(PAST)]
    first, *others = judged(session("now", 12.0), past).reasons
    assert first.startswith("cost: worse: 12 ms against 10.02")
    assert others[-1] == (
        f"figure 'cost' of {CHECK}; if it is meant: draftgate accept RECORD --lower --reason TEXT"
    )
    assert CHECK not in str(judged(session("now", 10.03), past))


def test_the_value_of_one_boot_is_kept_as_it_was_measured(session):
    past = [session(f"s{i:02}", cost) for i, cost in enumerate(PAST)]
    for accepted in (past, past[:3], []):
        assert judged(session("now", 39.0), accepted).value == 39.0


def test_a_regression_stands_in_the_table_of_own_tests_alone(session):
    past = [session(f"s{i:02}", cost) for i, cost in enumerate(PAST)]
    record = session("now", 12.0)
    server = record.servers[NONE]
    server = replace(
        server,
        outcomes={**server.outcomes, CHECK: "failed"},
        verdicts=(judged(record, past),),
    )
    record = replace(record, servers={NONE: server})
    (row,), (own,) = rows_of(record), own_rows_of(record)
    assert (row.mark, row.baseline.text) == (Mark.RED, "-")
    assert own.baseline.text == "FAIL regression +19.7%"


@pytest.mark.parametrize(
    ("less", "count", "rest"),
    [
        (True, 5, "5 10.02 ms 0.6% +2.3% 3.4% provisional 5/12"),
        (False, 5, "5 10.02 ms 0.6% -2.3% 3.4% provisional 5/12"),
        (True, 2, "2 10.05 ms - - - recording 2/5"),
    ],
)
def test_the_command_baseline_lists_it(session, less, count, rest):
    past = [session(f"s{i:02}", cost, less=less) for i, cost in enumerate(PAST[:count])]
    rows = [" ".join(row.split()) for row in render_baselines({"c": past}, width=140).splitlines()]
    assert f"{NONE} {CHECK} cost {rest}" in rows
    reason = judged(session("now", 10.0, less=less), past).reasons[0]
    assert count < 5 or f"limit {rest.split()[4]})" in reason
    free = [session(f"s{i:02}", cost, gate=False) for i, cost in enumerate(PAST)]
    assert CHECK not in render_baselines({"c": free}, width=140)


def test_a_long_name_of_a_test_is_listed_whole(session):
    record = session("s00", 10.0)
    server = record.servers[NONE]
    check = "test_" + "mine_" * 12 + "::" + "test_" + "cost_" * 12
    figure = replace(server.last.figures[0], check=check)
    boot = replace(server.last, figures=(figure,))
    record = replace(record, servers={NONE: replace(server, boots=(boot,))})
    shown = render_baselines({"c": [record]}, width=140)
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    assert "recording 1/5" in shown


@pytest.mark.parametrize("name", ["verify steps", "step-rate", "acceptance", "speed-up"])
def test_no_figure_takes_the_name_of_a_metric(name):
    figure = OwnFigure(CHECK, name, 1.0, "", True, False)
    with pytest.raises(MeasurementError, match=f"'{name}' is a metric of the suite"):
        _checked(figure, (), is_parametrized=False)


def test_below_five_sessions_it_is_recording(session):
    past = [session(f"s{i:02}", cost) for i, cost in enumerate(PAST[:4])]
    verdict = judged(session("now", 20.0), past)
    assert verdict.status is Status.RECORDING
    assert verdict.reasons == ("cost: 20 ms (+99.7%); 4 of 5 accepted sessions that a limit needs",)
    assert judged(session("now", 20.0), []).status is Status.RECORDING


def test_a_figure_that_no_session_holds_is_recording(session, history):
    verdict = judged(session("now", 20.0), history(*range(5)))
    assert verdict.status is Status.RECORDING
    assert "none of 5 accepted sessions holds a figure 'cost' of test_mine::test_cost" in str(
        verdict
    )


def test_sessions_are_compared_by_as_many_boots(session):
    past = [session(f"s{i:02}", cost, 99.0) for i, cost in enumerate(PAST)]
    assert judged(session("now", 10.03), past).status is Status.PASS


def test_a_worse_figure_is_accepted_with_lower_alone(session, tmp_path):
    def accept(record, **options):
        path = tmp_path / "record.json"
        write_record(record, path)
        return accept_record(path, tmp_path / "baselines", "good", **options)

    for i, cost in enumerate(PAST):
        accept(session(f"s{i:02}", cost))
    worse = session("s10", 12.0)
    past = [session(f"s{i:02}", cost) for i, cost in enumerate(PAST)]
    server = worse.servers[NONE]
    red = replace(
        server,
        outcomes={**server.outcomes, CHECK: "failed"},
        verdicts=(*server.verdicts, judged(worse, past)),
    )
    worse = replace(worse, servers={NONE: red})
    with pytest.raises(BaselineError, match=r"worse than what was accepted: .* cost \+19\.7%"):
        accept(worse)
    assert accept(worse, lower=True).is_file()

    asserted = replace(worse, session="s11", servers={NONE: replace(red, verdicts=server.verdicts)})
    with pytest.raises(BaselineError, match=f"not green .*{NONE} {CHECK}"):
        accept(asserted, lower=True)


def test_it_is_shown_by_name(session):
    record = session("now", 10.0, 12.0)
    shown = f"{CHECK} passed cost 11 ms -"
    table, page, markdown = (
        render_table(record, width=None, color=False),
        render_page(record),
        render_markdown(record).replace("\\_", "_"),
    )
    assert shown in " ".join(table.split())
    assert f"{CHECK} | passed | cost 11 ms | -" in markdown
    assert f"<td>{CHECK}</td><td>passed</td><td>cost 11 ms</td><td>-</td>" in page
