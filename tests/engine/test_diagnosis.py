"""A draft alone against the real server that serves it: the same histogram, to the count."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from draftgate.catalog.select import load_profiles, select
from draftgate.cli import main
from draftgate.engine.boot import launch
from draftgate.engine.interpreter import inspect_interpreter
from draftgate.engine.plan import plan_launch
from draftgate.models.location import locate

pytestmark = pytest.mark.extended


@pytest.fixture
def server(tmp_path):
    (spec,) = select(load_profiles(()), ["tiny"], ["tiny/eagle3-s5k1d6/cpu"])
    running = launch(
        plan_launch(
            spec,
            interpreter=inspect_interpreter(Path(sys.executable)),
            target_path=str(locate(spec.target.path).folder),
            draft_path=str(locate(spec.speculation.draft.path).folder),
            artifacts=tmp_path,
        )
    )
    yield running
    running.stop()


def test_a_running_server_is_diagnosed(server, capsys):
    arguments = ["diagnose", "--url", server.base_url, "--prompts", "builtin:tiny"]
    assert main([*arguments, "--target", "builtin:tiny", "--draft", "builtin:tiny-eagle3"]) == 0
    out = capsys.readouterr().out
    assert "the draft does alone what it does in the server, so the engine is right" in out
    assert "trained on [1, 3, 5], fed [1, 3, 5]" in out
    assert "equal to the count)" in out
