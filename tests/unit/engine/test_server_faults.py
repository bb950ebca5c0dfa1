"""Every fault ends in the right error, in bounded time, and leaves no process and no port."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from draftgate.errors import BootError

from tests.fake_sglang.interpreter import make_interpreter
from tests.reliability.page import PAGE, rows_of
from tests.reliability.server_faults import CASES, Case, Ending, run_case

AT_ONCE = 4
SOON_S = 30.0
"""Far below the boot limit of 60 s: it proves that nobody waits for that."""


@pytest.fixture(scope="module")
def endings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Ending]]]:
    """All cases, several at a time: they are separate servers, and mostly they wait."""
    python = make_interpreter(tmp_path_factory.mktemp("fake_sglang"))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            case.name: pool.submit(run_case, case, tmp_path_factory.mktemp("fault"), python)
            for case in sorted(CASES, key=lambda case: "20 s" not in case.name)
        }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_fault_ends_in_its_error(endings: dict[str, Future[Ending]], case: Case) -> None:
    ending = endings[case.name].result()
    assert type(ending.error) is (case.error or type(None)), ending.error
    for word in case.words:
        assert word in str(ending.error)
    assert len(str(ending.error).splitlines()) <= 15
    assert ending.processes == []
    assert ending.ports == []
    if isinstance(ending.error, BootError):
        assert str(ending.error).startswith("tiny/")
        assert "server.log" in str(ending.error)
        assert "-m sglang.launch_server --model-path" in str(ending.error)
    if case.error is not None:
        assert ending.notice_s is not None
        assert ending.notice_s < SOON_S


def test_the_page_names_these_faults_and_errors() -> None:
    """`python -m tests.reliability.page` writes it."""
    rows = rows_of(PAGE.read_text(), "fault")
    assert [row[:2] for row in rows] == [(case.name, case.expected) for case in CASES]
    assert {row[3:] for row in rows} == {("0", "0")}
