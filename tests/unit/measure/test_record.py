from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fixtures.cli import main
from fixtures.errors import BaselineError
from fixtures.gate.store import accept_record, accepted_throughput, load_accepted
from fixtures.measure.machine import Machine
from fixtures.measure.record import (
    Accepted,
    BootRecord,
    Layers,
    ModelIdentity,
    Record,
    ServerRecord,
    VerdictEntry,
    Widths,
)
from fixtures.measure.record_file import read_record, write_record
from fixtures.measure.samples import AcceptanceSample, PromptSample, Round, ThroughputSample

THROUGHPUT = ThroughputSample(
    (Round(2.0, 100, 30, 1.9),), (Round(1.0, 100, 30, 0.9),), True, 1, 64, 8, "aa"
)
VERDICTS = tuple(
    VerdictEntry(metric, "pass", None, None, ())
    for metric in ("flags", "width", "layers", "acceptance length")
)
BOOT = BootRecord(
    index=0,
    widths=Widths(192, 192, 192, (64,)),
    layers=Layers((1, 3, 5), (1, 3, None), (0.0, 0.0, 0.4), "weights", 1, True),
    acceptance=AcceptanceSample((PromptSample("a", 128, 36, 0, "ff"),), 128, 8, "aa", (1, 2)),
    throughput=THROUGHPUT,
    environment={"OMP_NUM_THREADS": "1", "SGLANG_CACHE_DIR": "/home/me/cache"},
    resolved={"attention_backend": "intel_amx", "model_path": "/models/mine"},
)
SERVER = ServerRecord(
    id="tiny/eagle3-s3k1d4/cpu",
    spec={
        "acceptance_floor": 3.4,
        "speculation": {"num_steps": 3},
        "target": {"path": "/models/mine"},
    },
    target=ModelIdentity("/models/mine", "c0", "d0"),
    boots=(BOOT, replace(BOOT, index=1)),
    outcomes={"test_throughput": "passed"},
    verdicts=VERDICTS,
)
RECORD = Record(
    schema=2,
    session="2026-01-02T03-04-05-abcd",
    started_utc="2026-01-02T03:04:05+00:00",
    duration_s=200.0,
    machine=Machine("cpu-x-x2", "cpu", "x", 2, 24, (), (), None),
    software={"sglang": "0.5.23"},
    servers={SERVER.id: SERVER},
    first_launch_s=1.5,
    not_measured={},
)


def with_server(**changes):
    return replace(RECORD, servers={SERVER.id: replace(SERVER, **changes)})


def with_boot(**changes):
    return with_server(boots=(replace(BOOT, **changes),))


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "record.json"
    write_record(RECORD, path)
    return path


def test_a_record_comes_back_as_it_was(written):
    assert read_record(written) == RECORD
    assert [path.name for path in written.parent.iterdir()] == ["record.json"]


def test_a_write_that_fails_leaves_the_old_record(written, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_record(replace(RECORD, duration_s=1.0), written)
    assert read_record(written) == RECORD
    assert [path.name for path in written.parent.iterdir()] == ["record.json"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a whole JSON object"),
        ('{"schema": 2, "ses', "not a whole JSON object"),
        ("[]", "not a whole JSON object"),
        ('{"schema": 3}', "schema 3, and this draftgate reads schema 2"),
        ('{"benchmarks": []}', "schema None"),
        ('{"schema": 2}', "session: Field required"),
    ],
)
def test_what_is_no_record(tmp_path, text, words):
    path = tmp_path / "foreign.json"
    path.write_text(text)
    with pytest.raises(BaselineError, match=words):
        read_record(path)


def test_accept_files_it_by_machine_class(written, tmp_path):
    path = accept_record(written, tmp_path / "baselines", "first good night")
    assert path == tmp_path / "baselines" / "cpu-x-x2" / "2026-01-02T03-04-05-abcd.json"
    records = load_accepted(path.parent)
    (stored,) = records[0].servers.values()
    assert records[0].accepted == Accepted("first good night")
    assert stored.throughputs == (THROUGHPUT, THROUGHPUT)
    assert stored.spec["target"] == {"path": "mine"}
    assert stored.last.environment == {"OMP_NUM_THREADS": "1"}
    assert stored.target == ModelIdentity("mine", "c0", "d0")
    assert stored.last.resolved == {"attention_backend": "intel_amx"}
    assert "/" not in stored.spec["target"]["path"]  # no path of the host is kept
    assert accepted_throughput(records, SERVER.id) == [THROUGHPUT, THROUGHPUT]
    assert accepted_throughput(records, "tiny/none/cpu") == []
    with pytest.raises(BaselineError, match="accepted already"):
        accept_record(written, tmp_path / "baselines", "again")


@pytest.mark.parametrize(
    ("record", "reason", "words"),
    [
        (RECORD, " ", "--reason is empty"),
        (with_server(outcomes={"test_flags": "failed"}), "x", "not green.*test_flags"),
        (with_server(outcomes={}), "x", "nothing was measured"),
        (with_boot(throughput=replace(THROUGHPUT, settled=False)), "x", "never settled"),
        (with_boot(throughput=None), "x", "no server's speed was measured"),
        (with_server(verdicts=VERDICTS[:-1]), "x", "not judged: .*/cpu acceptance length"),
    ],
)
def test_what_cannot_become_a_baseline(tmp_path, record, reason, words):
    path = tmp_path / "record.json"
    write_record(record, path)
    with pytest.raises(BaselineError, match=words):
        accept_record(path, tmp_path / "baselines", reason)
    assert not (tmp_path / "baselines").exists()


def test_a_folder_of_accepted_records_is_read_strictly(written, tmp_path):
    folder = accept_record(written, tmp_path / "baselines", "x").parent
    (good,) = folder.iterdir()
    content = good.read_text()

    (folder / "copy.json").write_text(content)
    with pytest.raises(BaselineError, match="holds session .*, and so does"):
        load_accepted(folder)
    (folder / "copy.json").unlink()

    never = json.loads(content) | {"accepted": None, "session": "other"}
    (folder / "never.json").write_text(json.dumps(never))
    with pytest.raises(BaselineError, match="a record that nobody accepted"):
        load_accepted(folder)
    (folder / "never.json").unlink()

    elsewhere = folder.with_name("h200x1")
    elsewhere.mkdir()
    (elsewhere / "moved.json").write_text(content)
    with pytest.raises(BaselineError, match="measured on cpu-x-x2, and this folder holds h200x1"):
        load_accepted(elsewhere)
    assert load_accepted(folder.with_name("unknown")) == []


def test_the_command_line(written, tmp_path, capsys):
    arguments = ["accept", str(written), "--baselines", str(tmp_path / "b"), "--reason"]
    assert main([*arguments, "why not"]) == 0
    assert "accepted as" in capsys.readouterr().out
    assert main([*arguments, "why not"]) == 2
    assert capsys.readouterr().err.startswith("draftgate: ")
    assert main(["show", str(written)]) == 0
    assert "tiny/eagle3-s3k1d4/cpu" in capsys.readouterr().out
    assert main(["list", "tiny"]) == 0
    assert "tiny/eagle3-s5k1d6/graph" in capsys.readouterr().out.splitlines()
