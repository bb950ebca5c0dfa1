from __future__ import annotations

import json
import shutil
import tracemalloc
from dataclasses import replace

import pytest
from draftgate.errors import BaselineError
from draftgate.gate.store import ENOUGH, load_accepted
from draftgate.measure.record import Accepted
from draftgate.measure.record_file import read_record, write_record

NONE, SPEC = "tiny/none/cpu", "tiny/eagle3-s3k1d4/cpu"


@pytest.fixture
def folder(tmp_path, history):
    """Twelve accepted records."""
    folder = tmp_path / "cpu-x-x2"
    folder.mkdir()
    for record in history(*range(12), accepted=Accepted("good", (NONE, SPEC))):
        write_record(record, folder / f"{record.session}.json")
    return folder


def test_records_come_newest_first(folder):
    assert [r.session for r in load_accepted(folder, [SPEC])] == [
        f"s{i:03}" for i in reversed(range(12))
    ]
    assert load_accepted(folder, ["other/none/cpu"]) == []
    assert load_accepted(folder.with_name("absent"), [SPEC]) == []


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda text: b"", "not a whole JSON object"),
        (lambda text: text[: len(text) // 2], "not a whole JSON object"),
        (lambda text: text.replace(b'"schema": 3', b'"schema": 4'), "schema 4, and this draftgate"),
        (lambda text: b'{"benchmarks": []}\n', "it names no schema"),
        (lambda text: text.replace(b"s005", b"s099"), "holds session s099, whose file is s099"),
        (lambda text: text.replace(b"cpu-x-x2", b"h200x1"), "measured on h200x1, and this folder"),
        (
            lambda text: json.dumps(json.loads(text) | {"accepted": None}).encode(),
            "nobody accepted",
        ),
    ],
)
@pytest.mark.parametrize("cells", [[SPEC], ["other/none/cpu"]], ids=["held", "absent"])
def test_a_bad_file_is_one_error_that_names_it(folder, spoil, words, cells):
    """Whatever server is asked for, save for what only a whole reading tells."""
    path = folder / "s005.json"
    path.write_bytes(spoil(path.read_bytes()))
    if cells != [SPEC] and words.startswith("measured on"):
        return
    before = sorted(folder.iterdir())
    with pytest.raises(BaselineError, match=words) as caught:
        load_accepted(folder, cells)
    assert str(path) in str(caught.value)
    assert sorted(folder.iterdir()) == before


def test_a_session_cannot_count_twice(folder):
    shutil.copy(folder / "s003.json", folder / "copy.json")
    with pytest.raises(BaselineError, match="copy.json: holds session s003, .* delete it"):
        load_accepted(folder, [SPEC])


def test_an_unreadable_file_is_named(folder):
    (folder / "s020.json").mkdir()
    with pytest.raises(BaselineError, match="s020.json: cannot be read: Is a directory"):
        load_accepted(folder, [SPEC])


def test_a_reformatted_record_is_read_as_well(folder):
    path = folder / "s011.json"
    path.write_text(json.dumps(json.loads(path.read_text())))
    assert load_accepted(folder, [SPEC])[0] == replace(read_record(path))


def test_of_thousands_only_what_is_needed_is_parsed(folder, monkeypatch):
    text = (folder / "s011.json").read_bytes()
    for number in range(1000):
        name = f"t{number:05}"
        (folder / f"{name}.json").write_bytes(text.replace(b"s011", name.encode()))
    parsed = []

    def counting(path, text):
        parsed.append(path.stem)
        return original(path, text)

    import draftgate.gate.store as store

    original = store.parse_record
    monkeypatch.setattr(store, "parse_record", counting)
    tracemalloc.start()
    assert len(load_accepted(folder, [SPEC, NONE])) == ENOUGH
    assert parsed[0] == "t00999"
    assert len(parsed) == ENOUGH
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50 << 20
    assert load_accepted(folder, ["other/none/cpu"]) == []
    assert len(parsed) == ENOUGH
