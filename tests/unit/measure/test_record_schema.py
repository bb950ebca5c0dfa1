"""Records of before, and the schema that readers of other tools rely on."""

from __future__ import annotations

import json

import pytest
from draftgate.gate.checks import Check
from draftgate.gate.store import load_accepted
from draftgate.measure.migration import CHECKS, to_schema_3
from draftgate.measure.record_file import openings_of, read_record, write_record
from draftgate.measure.record_schema import record_schema
from draftgate.measure.verdict import Metric

from tests import states
from tests.conftest import ROOT

FOLDER = ROOT / "docs/records"
KEPT = {str(path.relative_to(FOLDER)): path for path in sorted(FOLDER.rglob("*.json"))}
each_kept = pytest.mark.parametrize("path", KEPT.values(), ids=KEPT.keys())


def data_of(path):
    return json.loads(path.read_text())


@each_kept
def test_a_record_of_schema_2_is_read_as_one_of_today(path, tmp_path):
    old, record = data_of(path), read_record(path)
    assert old["schema"] == 2
    assert path.read_bytes().startswith(openings_of(record.session))
    for id_, server in record.servers.items():
        was = old["servers"][id_]
        assert list(server.outcomes) == [CHECKS[test] for test in was["outcomes"]]
        assert [v.name for v in server.verdicts] == [v["metric"] for v in was["verdicts"]]
        assert [v.status for v in server.verdicts] == [v["status"] for v in was["verdicts"]]
        judged = {Check(verdict.check) for verdict in server.verdicts}
        assert judged <= {*server.outcomes, Check.SPEED_CHANGE}  # of the first record, by another
        spec = was["spec"]
        assert server.spec.settings["host"] == spec["host"]
        assert server.spec.throughput.rounds == spec["throughput"]["rounds"]
        assert server.messages.keys() == {CHECKS[test] for test in was.get("messages", ())}
    write_record(record, tmp_path / "record.json")
    assert read_record(tmp_path / "record.json") == record


def test_verdicts_of_one_metric_go_to_the_checks_that_judged_them():
    server = read_record(KEPT["h200x1-tiny-sglang-0.5.16.json"]).servers[states.SLOW]
    of = {
        metric: [v.check for v in server.verdicts if v.metric == metric]
        for metric in (Metric.FLAGS, Metric.WIDTH)
    }
    assert of == {
        Metric.FLAGS: [Check.ALGORITHM, Check.FLAGS],
        Metric.WIDTH: [Check.FC_WIDTH, Check.RETURNED_WIDTH, Check.STEP_WIDTHS],
    }


def test_an_accepted_record_of_schema_2_counts_on(tmp_path):
    (path, *_) = (p for name, p in KEPT.items() if name.startswith("baselines/"))
    folder = tmp_path / path.parent.name
    folder.mkdir()
    (folder / path.name).write_bytes(path.read_bytes())
    (record,) = load_accepted(folder, read_record(path).servers)
    assert record == read_record(path)
    assert load_accepted(folder, ["other/none/cpu"]) == []


@pytest.fixture(scope="module")
def validator():
    jsonschema = pytest.importorskip("jsonschema")
    return jsonschema.Draft202012Validator(record_schema())


@each_kept
def test_the_schema_holds_for_every_record(path, validator):
    validator.validate(to_schema_3(data_of(path)))
    assert not validator.is_valid(data_of(path))  # schema 2


def test_the_schema_holds_for_what_is_written(tmp_path, validator):
    write_record(states.red(), tmp_path / "record.json")
    validator.validate(data_of(tmp_path / "record.json"))


def test_the_published_schema_is_that_of_the_types():
    published = json.loads((ROOT / "docs/record.schema.json").read_text())
    assert published == record_schema(), (
        "run python -m draftgate.measure.record_schema > docs/record.schema.json"
    )
