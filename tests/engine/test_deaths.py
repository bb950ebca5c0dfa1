"""However pytest ends, no real server of it is left: the three deaths that differ most."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.deaths import DEATHS, Death, die

pytestmark = pytest.mark.extended

CHOSEN = [death for death in DEATHS if death.name in {"SIGKILL", "Ctrl-C twice", "-x"}]


@pytest.mark.parametrize("death", CHOSEN, ids=lambda death: death.name)
def test_no_real_server_outlives_pytest(tmp_path: Path, death: Death) -> None:
    left = die(death, tmp_path, ("--dg-server", "tiny/none/cpu"))
    assert left.processes == []
    assert left.ports == []
    assert left.notes == (["cpu-engine.json"] if death.is_sudden else [])
