"""A pytest plugin: the draft is replayed alone on every server, however good its acceptance."""

from __future__ import annotations

import pytest

from tests.faults.catalogue import CACHED


def pytest_runtest_makereport(item: pytest.Function, call: pytest.CallInfo[None]) -> None:
    """Behind the test of cached prompts; the replay's time is nobody's."""
    if call.when == "call" and item.originalname == CACHED:
        used = item.funcargs
        used["dg_session"].explain_acceptance(used["dg_server"], used["dg_boot"])
