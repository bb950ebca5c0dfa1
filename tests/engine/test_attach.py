"""`--dg-attach` on a real server: what a booted one would be judged by, and nothing of it ended."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from draftgate.catalog.select import load_profiles
from draftgate.engine.boot import launch
from draftgate.engine.interpreter import inspect_interpreter
from draftgate.engine.plan import plan_launch
from draftgate.measure.record_file import read_record
from draftgate.models.location import locate
from draftgate.probes import hooks

pytestmark = pytest.mark.extended

ID = "tiny/eagle3-s5k1d6/cpu"
KEY = "key-of-somebody-else"


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server with a key and with observers, as docs/attach.md starts it."""
    monkeypatch.setenv("DRAFTGATE_API_KEY", KEY)
    spec = next(spec for spec in load_profiles()["tiny"].servers if spec.id == ID)
    running = launch(
        plan_launch(
            spec,
            interpreter=inspect_interpreter(Path(sys.executable)),
            target_path=str(locate("builtin:tiny").folder),
            draft_path=str(locate("builtin:tiny-eagle3").folder),
            artifacts=tmp_path / "somebody",
            overlays=(hooks.SITE,),
            extra_args=hooks.probe_flags(tmp_path / "observed"),
        )
    )
    yield running
    running.stop()


def test_a_real_server_is_judged_from_outside(run_pytest, server, tmp_path):
    (tmp_path / "observed").mkdir(exist_ok=True)
    run = run_pytest(
        "tests/suite", "--dg-attach", f"{ID}={server.base_url}", "-k", "not throughput"
    )
    server.check_alive()
    assert run.code == 0, run.text
    (path,) = (tmp_path / "artifacts").glob("*/record.json")
    judged = read_record(path).servers[ID]
    assert judged.last.widths.fc_in == 192
    assert judged.last.layers.fed == (1, 3, 5)
    assert judged.last.acceptance.length == pytest.approx(4.95, abs=0.05)
    assert judged.outcomes["flags"] == "passed"
    assert KEY not in run.text
