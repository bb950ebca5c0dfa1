from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
from draftgate.catalog.select import load_profiles
from draftgate.catalog.spec import Draft, Target
from draftgate.errors import BaselineError
from draftgate.measure.machine import Machine
from draftgate.measure.record import (
    SCHEMA,
    Accepted,
    BootRecord,
    Layers,
    ModelIdentity,
    Record,
    ServerRecord,
    Widths,
    geometric,
    recorded,
)
from draftgate.measure.record_file import accepted, openings_of, read_record, write_record
from draftgate.measure.samples import AcceptanceSample, PromptSample, Round, ThroughputSample
from draftgate.measure.verdict import Metric, Status

from tests.asked import SPECULATION, asked
from tests.conftest import ROOT

THROUGHPUT = ThroughputSample(
    (Round(2.0, 100, 30, 1.9),), (Round(1.0, 100, 30, 0.9),), True, 1, 64, 8, "aa"
)
VERDICTS = tuple(
    metric.verdict(Status.PASS)
    for metric in (Metric.FLAGS, Metric.WIDTH, Metric.LAYERS, Metric.ACCEPTANCE_LENGTH)
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
    spec=asked(acceptance_floor=3.4, speculation=SPECULATION),
    target=ModelIdentity("/models/mine", "c0", "d0"),
    boots=(BOOT, replace(BOOT, index=1)),
    outcomes={"speed": "passed"},
    verdicts=VERDICTS,
)
OF_TINY = "tiny/none/graph"
RECORD = Record(
    schema=SCHEMA,
    accepted=None,
    session="2026-01-02T03-04-05-abcd",
    started_utc="2026-01-02T03:04:05+00:00",
    duration_s=200.0,
    machine=Machine("cpu-x-x2", "cpu", "x", 2, 24, (), (), None),
    software={"sglang": "0.5.23"},
    servers={SERVER.id: SERVER},
    first_launch_s=1.5,
    not_measured={},
)


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "record.json"
    write_record(RECORD, path)
    return path


def test_a_record_comes_back_as_it_was(written):
    assert read_record(written) == RECORD
    assert written.read_bytes().startswith(openings_of(RECORD.session))
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
        ('{"schema": 3, "ses', "not a whole JSON object"),
        ("[]", "not a record of draftgate: it holds no JSON object"),
        ("# README", "not a record of draftgate: .* give a session's folder"),
        (
            '{"schema": 99}',
            "schema 99, .* reads schema 2 and 3; it is of a newer .*: upgrade",
        ),
        ('{"schema": 1}', "schema 1, .* reads schema 2 and 3; it is of an older .*: measure again"),
        ('{"benchmarks": []}', "not a record of draftgate: it names no schema"),
        ('{"schema": true}', "schema must be a whole number, is true"),
        ('{"schema": "2"}', 'schema must be a whole number, is "2"'),
        ('{"schema": 2.0}', "schema must be a whole number, is 2.0"),
        ('{"schema": null}', "schema must be a whole number, is null"),
        ('{"schema": 2}', "session: Field required"),
        ('{"schema": 2, "servers": {"a": 1}}', "schema 2, and not as its draftgate wrote it"),
        ('{"schema": 3}', "session: Field required"),
    ],
)
def test_what_is_no_record(tmp_path, text, words):
    path = tmp_path / "foreign.json"
    path.write_text(text)
    with pytest.raises(BaselineError, match=words):
        read_record(path)


def _floors(value):
    def damage(record):
        record["servers"][OF_TINY]["spec"]["category_floors"] = value

    return damage


def _without_memory(record):
    record["machine"]["gpu_memory_mib"] = []


def _renamed(record):
    record["servers"][OF_TINY]["id"] = "tiny/other"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_floors("x"), rf"servers\.{OF_TINY}\.spec\.category_floors: .*dictionary"),
        (_floors(["x"]), rf"servers\.{OF_TINY}\.spec\.category_floors: .*dictionary"),
        (_without_memory, r"machine\.gpu_memory_mib: expected one for each .*gpus, 1, is 0;"),
        (_renamed, rf"servers\.{OF_TINY}\.id: expected the key .*, is 'tiny/other';"),
    ],
)
def test_a_damaged_record_of_schema_2_is_one_error_that_names_the_key(tmp_path, damage, words):
    record = json.loads((ROOT / "docs/records/h200x1-tiny-sglang-0.5.16.json").read_text())
    damage(record)
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(record))
    with pytest.raises(BaselineError, match=words):
        read_record(path)


@pytest.mark.parametrize("value", [39.0, 0.1, 1e9])
def test_the_geometric_mean_of_one_value_is_that_value(value):
    assert geometric([value]) == value
    assert geometric([value, 4 * value]) == pytest.approx(2 * value)
    assert geometric([]) is None


def test_a_baseline_keeps_no_path_of_the_host():
    (stored,) = accepted(RECORD, Accepted("good")).servers.values()
    assert stored.throughputs == (THROUGHPUT, THROUGHPUT)
    assert stored.spec == asked(
        acceptance_floor=3.4,
        speculation=replace(SPECULATION, draft=Draft("mine", "draft")),
        target=Target("mine"),
    )
    assert stored.target == ModelIdentity("mine", "c0", "d0")
    assert stored.last.environment == {"OMP_NUM_THREADS": "1"}
    assert stored.last.resolved == {"attention_backend": "intel_amx"}


def test_what_was_asked_for_is_recorded_without_secrets(tmp_path):
    specs = [spec for profile in load_profiles(()).values() for spec in profile.servers]
    (first, *_) = (spec for spec in specs if spec.speculation)
    secret = replace(first, env=(("HF_TOKEN", "hf_1"),), args=("--api-key", "k1"))
    servers = {s.id: replace(SERVER, id=s.id, spec=recorded(s)) for s in [*specs, secret]}
    write_record(replace(RECORD, servers=servers), tmp_path / "record.json")
    assert read_record(tmp_path / "record.json").servers == servers
    kept = servers[secret.id].spec
    assert (kept.source, kept.env) == (first.source.name, ("HF_TOKEN",))
    assert kept.settings["context_length"] == first.context_length
    assert "hf_1" not in (text := (tmp_path / "record.json").read_text())
    assert '"k1"' not in text


@pytest.mark.parametrize(
    ("name", "servers"),
    [("kimi-k25-shape", 2), ("kimi-planted", 3), ("tiny", 8)],
)
def test_the_kept_gpu_records_are_readable(name, servers):
    record = read_record(ROOT / "docs" / "records" / f"h200x1-{name}-sglang-0.5.16.json")
    assert record.machine.gpus == ("NVIDIA H200",)
    assert len(record.servers) == servers


def test_what_is_no_file_is_written_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_record(RECORD, pipe)
    assert pipe.is_fifo()
    assert os.read(reader, 4) == b'{\n "'
    os.close(reader)


def test_ctrl_c_while_writing_leaves_the_old_record(written, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_record(replace(RECORD, duration_s=1.0), written)
    assert read_record(written) == RECORD
    assert [path.name for path in written.parent.iterdir()] == ["record.json"]
