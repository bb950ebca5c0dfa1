"""`show`, `report` and `merge`: one clear error each, and nothing half-written."""

from __future__ import annotations

from dataclasses import replace

import pytest
from draftgate.cli import main
from draftgate.measure.record_file import write_record

from tests import states


@pytest.fixture
def record(tmp_path):
    file = tmp_path / "host-0" / "record.json"
    file.parent.mkdir()
    write_record(states.green(), file)
    return file


def refusal(capsys, *words):
    """What a command that exits 2 says, on one line."""
    assert main([str(word) for word in words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


def test_show_says_that_nothing_was_measured(record, capsys):
    write_record(replace(states.green(), servers={}), record)
    assert f"{record}: nothing was measured" in refusal(capsys, "show", record)


def test_a_page_never_takes_the_place_of_its_record(record, capsys):
    before = record.read_bytes()
    said = refusal(capsys, "report", record, "--html", record)
    assert "would take the place of a record" in said
    assert record.read_bytes() == before


@pytest.mark.parametrize("command", ["merge", "report"])
def test_a_session_counts_once(record, capsys, command):
    copy = record.with_name("copy.json")
    copy.write_bytes(record.read_bytes())
    there = sorted(record.parent.iterdir())
    output = ("-o", record.with_name("night.json")) if command == "merge" else ()
    for twice in ([record, record], [record, copy]):
        said = refusal(capsys, command, *twice, *output)
        assert f"{twice[1]}: session {states.green().session} is given twice" in said
    assert sorted(record.parent.iterdir()) == there


@pytest.mark.parametrize(
    ("command", "flag"), [("merge", "--output"), ("report", "--html"), ("report", "--markdown")]
)
@pytest.mark.parametrize(
    ("name", "words"),
    [("absent/night", "there is no folder"), ("folder", "a folder; name a file in it")],
)
def test_an_output_that_cannot_be(record, capsys, command, flag, name, words):
    (record.parent / "folder").mkdir()
    there = sorted(record.parent.rglob("*"))
    said = refusal(capsys, command, record, flag, record.parent / name)
    assert said.startswith(f"draftgate: {flag} {record.parent / name}: {words}")
    assert sorted(record.parent.rglob("*")) == there


@pytest.mark.parametrize("command", [("merge", "-o"), ("report", "--html")])
def test_a_full_disk_leaves_the_old_file(record, capsys, monkeypatch, command):
    def full(*_):
        raise OSError(28, "No space left on device")

    verb, flag = command
    output = record.with_name("night")
    output.write_text("old")
    there = sorted(record.parent.iterdir())
    monkeypatch.setattr("os.fsync", full)
    said = refusal(capsys, verb, record, flag, output)
    assert said == f"draftgate: {output}: No space left on device\n"
    assert output.read_text() == "old"
    assert sorted(record.parent.iterdir()) == there


@pytest.mark.parametrize(
    "words",
    [
        ("trend", "--history"),
        ("baseline", "--baselines"),
        ("report", "RECORD", "--history"),
        ("report", "RECORD", "--baselines"),
        ("diagnose", "RECORD", "--baselines"),
    ],
)
def test_a_folder_to_read_is_there(record, capsys, tmp_path, words):
    given = [record if word == "RECORD" else word for word in words]
    said = refusal(capsys, *given, tmp_path / "absent")
    assert said == f"draftgate: {words[-1]} {tmp_path}/absent: no such folder\n"


def test_of_a_sessions_folder_its_record_is_meant(record, capsys):
    assert main(["show", str(record.parent)]) == 0
    by_folder = capsys.readouterr().out
    assert main(["show", str(record)]) == 0
    assert by_folder == capsys.readouterr().out


def test_what_is_no_record_is_never_said_to_be_deleted(capsys, tmp_path):
    for name, text in (("acme.toml", '[target]\npath = "mine"\n'), ("README.md", "# Mine\n")):
        (tmp_path / name).write_text(text)
        for command in ("show", "report"):
            said = refusal(capsys, command, tmp_path / name)
            assert f"{tmp_path / name}: not a record of draftgate" in said
            assert "delete" not in said


def test_a_printed_table_that_nobody_watches_cuts_nothing(tmp_path, capsys):
    whole = states.green()
    long = "mine/" + "a-draft-of-a-very-long-name-" * 6 + "s3k1d4/graph"
    server = replace(next(iter(whole.servers.values())), id=long)
    write_record(replace(whole, servers={long: server}), tmp_path / "record.json")
    assert main(["show", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[2].split()[0] == long
