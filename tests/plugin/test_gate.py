"""A session against accepted ones, and one that cannot be kept, on the stand-in of SGLang."""

from __future__ import annotations

import json

import pytest

from tests.plugin.conftest import SHORT

pytestmark = pytest.mark.extended

PROFILE = (
    SHORT
    + """devices = ["cpu"]
[[servers]]
"""
)


@pytest.fixture
def suite(tmp_path, fake_sglang, run_pytest):
    """Run the suite on one server of the stand-in, against baselines of the test's own."""
    profile = tmp_path / "mine.toml"
    profile.write_text(PROFILE)
    options = [
        *("tests/suite", "-m", "cpu", "--dg-profiles", str(profile), "--dg-profile", "mine"),
        *("--dg-server-python", str(fake_sglang), "--dg-baselines", str(tmp_path / "baselines")),
    ]
    alone = {"XDG_RUNTIME_DIR": str(tmp_path)}  # a lease that no real server of this host holds
    return lambda *more, **environment: run_pytest(*options, *more, **alone, **environment)


@pytest.fixture
def accepted(suite, tmp_path):
    """Five accepted sessions that hold the server and one more, which is gone since."""
    suite("-k", "asked or throughput")
    (path,) = (tmp_path / "artifacts").rglob("record.json")
    record = json.loads(path.read_text())
    (server,) = record["servers"].values()
    gone = {**server, "id": "mine/gone/cpu"}
    record["servers"]["mine/gone/cpu"] = gone
    record["accepted"] = {"reason": "x", "servers": list(record["servers"]), "restarts": {}}
    folder = tmp_path / "baselines" / record["machine"]["machine_class"]
    folder.mkdir(parents=True)
    for number in range(5):
        record["session"] = f"2026-01-01T00-00-0{number}-test"
        (folder / f"{record['session']}.json").write_text(json.dumps(record))
    return folder


def test_a_server_that_is_no_longer_measured_is_told_and_fails_a_nightly(suite, accepted):
    before = {path: path.read_bytes() for path in accepted.iterdir()}
    run = suite("-k", "asked")
    assert run.code == 0, run.text
    assert "mine/gone/cpu: has a baseline, and was not measured" in run.out
    assert "mine/none/cpu: has a baseline" not in run.out  # it is there; -k left its speed out
    nightly = suite("-k", "asked", "--dg-require-baseline")
    assert nightly.code == 1, nightly.text
    one = suite("-k", "asked", "--dg-server", "none/cpu")
    assert "mine/gone/cpu" not in one.out
    assert {path: path.read_bytes() for path in accepted.iterdir()} == before


def test_a_full_disk_at_the_end_is_one_line_and_red(suite, tmp_path):
    (tmp_path / "full.py").write_text(
        "import os\n"
        "def full(*_):\n"
        "    raise OSError(28, 'No space left on device')\n"
        "def pytest_sessionfinish():\n"
        "    os.fsync = full\n"
    )
    run = suite("-k", "asked", "-p", "full", PYTHONPATH=str(tmp_path))
    assert run.code == 1, run.text
    assert "ERROR: the record could not be written: " in run.out
    assert "record.json: No space left on device" in run.out
    assert "Traceback" not in run.text
    assert not list((tmp_path / "artifacts").rglob("*record.json*"))
