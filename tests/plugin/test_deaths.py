"""However pytest ends, no server of it is left, and the next run starts clean."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fake_sglang.interpreter import make_interpreter
from tests.reliability.deaths import DEATHS, GONE_LIMIT_S, Death, Remains, die, run_again
from tests.reliability.page import PAGE, rows_of

pytestmark = pytest.mark.extended

AT_ONCE = 3
SERVER = "tiny/none/cpu"


@dataclass(frozen=True)
class Story:
    """A death, and the next run where it could not clean up."""

    left: Remains
    next_code: int
    next_output: str


def tell(death: Death, folder: Path, python: Path) -> Story:
    server = ("--dg-server-python", str(python), "--dg-server", SERVER)
    left = die(death, folder, server)
    return Story(left, *(run_again(folder, server) if death.is_sudden else (0, "")))


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Story]]]:
    """All deaths, several at a time."""
    python = make_interpreter(tmp_path_factory.mktemp("fake_sglang"))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            death.name: pool.submit(tell, death, tmp_path_factory.mktemp("death"), python)
            for death in DEATHS
        }


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.name)
def test_no_server_outlives_pytest(stories: dict[str, Future[Story]], death: Death) -> None:
    story = stories[death.name].result()
    assert story.left.processes == []
    assert story.left.ports == []
    assert story.left.notes == (["cpu-engine.json"] if death.is_sudden else [])


@pytest.mark.parametrize("death", [d for d in DEATHS if d.is_sudden], ids=lambda death: death.name)
def test_the_next_run_says_what_it_took_over(
    stories: dict[str, Future[Story]], death: Death
) -> None:
    story = stories[death.name].result()
    assert story.next_code == 0, story.next_output
    assert "cpu-engine: pid " in story.next_output
    assert "ended without giving it back; taken over" in story.next_output


def test_each_death_is_the_one_that_was_meant(stories: dict[str, Future[Story]]) -> None:
    words = {
        "Ctrl-C": "KeyboardInterrupt",
        "Ctrl-C twice": "KeyboardInterrupt",
        "exception in a fixture": "RuntimeError: planted",
        "-x": "stopping after 1 failures",
        "--timeout, by signal": "Timeout (>2.0s) from pytest-timeout",
        "--timeout, by thread": "+ Timeout +",
    }
    for name, word in words.items():
        assert word in stories[name].result().left.output


def test_the_page_names_these_deaths() -> None:
    """`python -m tests.reliability.page` writes it."""
    rows = rows_of(PAGE.read_text(), "death")
    assert [row[0] for row in rows] == [death.name for death in DEATHS]
    assert {row[2:] for row in rows} == {("0", "0")}
    assert all(float(row[1].removesuffix(" s")) < GONE_LIMIT_S for row in rows)
