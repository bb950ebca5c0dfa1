from __future__ import annotations

from dataclasses import replace

import pytest
from draftgate.cli import main
from draftgate.errors import BaselineError
from draftgate.gate.accept import accept_record
from draftgate.gate.history import no_longer_measured
from draftgate.gate.store import load_accepted
from draftgate.gate.throughput import judge_speed
from draftgate.measure.record_file import write_record
from draftgate.measure.verdict import Metric, Status

NONE, SPEC = "tiny/none/cpu", "tiny/eagle3-s3k1d4/cpu"
RED = {"speed-change": "failed"}
CHANGED = {"sglang": "0.5.24"}


@pytest.fixture
def baselines(tmp_path):
    return tmp_path / "baselines"


@pytest.fixture
def accept(tmp_path, baselines):
    """Write a record as a session does, and accept it."""

    def accept(record, reason="good", **options):
        path = tmp_path / "record.json"
        write_record(record, path)
        return accept_record(path, baselines, reason, **options)

    return accept


@pytest.fixture
def five(accept, history):
    for record in history(0.5, -0.5, 1, -1, 0):
        accept(record)


def regressed(make_record, **changes):
    """A session at 80 % of the speed, as its own gate judged it."""
    record = make_record(
        "s100",
        none=(100.0,),
        spec=(160.0,),
        started="2026-01-01T00:00:00+00:00",
        software=CHANGED,
        **changes,
    )
    server = record.servers[SPEC]
    entry = Metric.THROUGHPUT.verdict(Status.REGRESSION, "slower", value=160.0, limit=190.0)
    server = replace(server, outcomes=RED, verdicts=(*server.verdicts, entry))
    return replace(record, servers={**record.servers, SPEC: server})


def test_it_is_filed_by_machine_class_and_session(accept, baselines, make_record):
    path = accept(make_record("s1"), "first good night")
    assert path == baselines / "cpu-x-x2" / "s1.json"
    (record,) = load_accepted(path.parent)
    assert record.accepted.reason == "first good night"
    with pytest.raises(BaselineError, match="accepted already"):
        accept(make_record("s1"))


def test_accepting_never_turns_the_same_run_green(accept, baselines, make_record, five):
    red = regressed(make_record)
    accept(red, "meant", lower=True)
    folder = baselines / "cpu-x-x2"
    again = judge_speed(red, SPEC, load_accepted(folder, [SPEC]))
    assert {verdict.status for verdict in again} == {Status.REGRESSION}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"outcomes": {"flags": "failed"}}, "not green.*flags"),
        ({"outcomes": {}}, "nothing was measured"),
        ({"settled": False}, "warm-up rounds never agreed; measure again on a quiet machine"),
        ({"none": (), "spec": ()}, "nothing was measured"),
        ({"started": "2999-01-01T00:00:00+00:00"}, "the clock of that machine was wrong"),
    ],
)
def test_what_cannot_become_a_baseline(accept, baselines, make_record, changes, words):
    with pytest.raises(BaselineError, match=words):
        accept(make_record("s1", **changes))
    assert not baselines.exists()


def test_a_server_that_was_not_judged_cannot_be_one(accept, make_record):
    record = make_record("s1")
    server = replace(record.servers[SPEC], verdicts=record.servers[SPEC].verdicts[:-1])
    with pytest.raises(BaselineError, match="not judged: .*/cpu acceptance length"):
        accept(replace(record, servers={**record.servers, SPEC: server}))
    with pytest.raises(BaselineError, match="--reason is empty"):
        accept(record, " ")
    with pytest.raises(BaselineError, match="lasted -3600.0 s: the clock"):
        accept(replace(record, duration_s=-3600.0))


def test_a_slower_session_needs_lower_and_replaces_the_earlier(
    accept, baselines, make_record, five
):
    slow = regressed(make_record)
    with pytest.raises(BaselineError, match=r"worse .*eagle3.* throughput -20\.\d%.*--lower"):
        accept(slow)
    path = accept(slow, "the new back end is slower, and right", lower=True)
    newest = load_accepted(path.parent)[0]
    assert newest.accepted.reason == "the new back end is slower, and right"
    assert list(newest.accepted.restarts) == [SPEC]
    later = judge_speed(make_record(), SPEC, load_accepted(path.parent))[0]
    assert later.reasons[0].endswith("1 of 5 accepted sessions that a limit needs")


def test_a_failed_run_is_not_accepted_even_with_lower(accept, make_record, five):
    record = regressed(make_record)
    server = record.servers[SPEC]
    broken = replace(server, outcomes={**RED, "acceptance": "failed"})
    with pytest.raises(BaselineError, match=f"red: {SPEC} acceptance$"):
        accept(replace(record, servers={**record.servers, SPEC: broken}), lower=True)


def test_a_lower_floor_needs_lower(accept, make_record, five):
    lower = make_record("s100", floor=3.0)
    with pytest.raises(BaselineError, match=r"acceptance_floor 3\.4 -> 3\.0"):
        accept(lower)
    assert accept(lower, lower=True).is_file()
    with pytest.raises(BaselineError, match=r"acceptance_floor 3\.0 -> None"):
        accept(make_record("s101", floor=None))


def test_a_faster_session_replaces_the_earlier_by_itself(accept, make_record, five):
    path = accept(make_record("s100", spec=(260.0,)))
    assert list(load_accepted(path.parent)[0].accepted.restarts) == [SPEC]


def test_what_replaces_must_be_the_newest(accept, make_record, five):
    with pytest.raises(BaselineError, match="s004, accepted before, started later"):
        accept(make_record("s000b", spec=(260.0,), started="2024-01-01T00:00:00+00:00"))


def test_without_a_limit_only_a_gross_loss_needs_lower(accept, make_record, history):
    for record in history(0, 1):
        accept(record)
    accept(make_record("s050", spec=(180.0,)))
    with pytest.raises(BaselineError, match="throughput -3"):
        accept(make_record("s051", spec=(130.0,)))


def test_a_full_disk_is_one_error_and_leaves_nothing(accept, baselines, make_record, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    accept(make_record("s1"))
    record = make_record("s2")
    from draftgate.measure.record_file import write_record as write

    def only_baselines(record, path):
        if "baselines" in path.parts:
            monkeypatch.setattr("os.fsync", full)
        write(record, path)

    monkeypatch.setattr("draftgate.gate.accept.write_record", only_baselines)
    with pytest.raises(BaselineError, match="s2.json: cannot be written: No space left on device"):
        accept(record)
    assert [path.name for path in (baselines / "cpu-x-x2").iterdir()] == ["s1.json"]


def test_cells_that_are_no_longer_measured(make_record, history):
    accepted = history(0, 1, 2)
    alone = make_record(spec=())
    assert no_longer_measured(alone, accepted, {"tiny"}, ()) == (SPEC,)
    assert no_longer_measured(make_record(), accepted, {"tiny"}, ()) == ()
    assert no_longer_measured(alone, accepted, {"other"}, ()) == ()
    assert no_longer_measured(alone, accepted, {"tiny"}, ["*none*"]) == ()
    assert no_longer_measured(alone, accepted, {"tiny"}, ["eagle3*"]) == (SPEC,)
    told = replace(alone, not_measured={SPEC: "needs 8 GPUs"})
    assert no_longer_measured(told, accepted, {"tiny"}, ()) == ()
    retired = make_record("s9", spec=(), started="2026-01-01T00:00:00+00:00")
    assert no_longer_measured(alone, [*accepted, retired], {"tiny"}, ()) == ()


def test_the_command_line(tmp_path, baselines, history, make_record, capsys):
    def command(*words):
        return main([str(word) for word in words])

    path = tmp_path / "record.json"
    where = ("--baselines", baselines)
    baselines.mkdir()
    assert command("baseline", *where) == 0
    assert "holds no accepted record" in capsys.readouterr().out
    for record in history(0.5, -0.5, 1, -1, 0):
        write_record(record, path)
        assert command("accept", path, *where, "--reason", "good") == 0
    assert "accepted as" in capsys.readouterr().out
    assert command("baseline", *where) == 0
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == "cpu-x-x2"
    assert f"{SPEC} throughput 5 200 tok/s 0.8% -3.2% 4.8% provisional 5/12" in rows
    assert f"{SPEC} acceptance 5 3.459 floor 3.4 provisional 5/12" in rows
    write_record(regressed(make_record), path)
    assert command("accept", path, *where, "--reason", "x") == 2
    assert capsys.readouterr().err.startswith("draftgate: ")
    assert command("accept", path, *where, "--reason", "x", "--lower") == 0
    assert command("show", path) == 0
    assert SPEC in capsys.readouterr().out
    assert command("list", "tiny") == 0
    assert "tiny/eagle3-s5k1d6/graph" in capsys.readouterr().out.splitlines()


def judged_by_nobody(make_record, *entries):
    record = make_record("s100", started="2026-01-01T00:00:00+00:00")
    server = record.servers[SPEC]
    server = replace(server, outcomes=RED, verdicts=(*server.verdicts, *entries))
    return replace(record, servers={**record.servers, SPEC: server})


def test_a_nightly_that_records_can_be_accepted(make_record, accept):
    recording = Metric.THROUGHPUT.verdict(Status.RECORDING, "0 of 5", value=200.0)
    assert accept(judged_by_nobody(make_record, recording)).is_file()


def test_a_comparison_that_failed_by_an_error_cannot(make_record, accept):
    with pytest.raises(BaselineError, match="not green"):
        accept(judged_by_nobody(make_record))
