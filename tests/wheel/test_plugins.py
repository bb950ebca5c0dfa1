"""The plugins people have most, beside draftgate: tox.ini lists twenty in `crowded`.

All of them install together with pytest 9, and no option of one is an option of another. Switched
on as its users do, each leaves the order of boots and the count of measurements as they are, or
the session is refused by name before anything boots. pytest-forked 1.7.5 fails every test under
pytest 9.2; of it, only the refusal can be seen.
"""

from __future__ import annotations

from itertools import chain

import pytest

from tests.wheel.conftest import NONE, SPEC, make_repository

BOOTS = [id_.replace("/", "--") for id_ in (NONE, SPEC)]
HARMLESS = {
    "all idle": (),
    "asyncio": ("--asyncio-mode=auto",),
    # pytest-bdd 9.0 cannot report subtests, and its reporter and pytest-sugar's exclude each other.
    "bdd": ("--gherkin-terminal-reporter", "-v", "-k", "not in_parts"),
    "clarity": ("--diff-width=100", "--diff-symbols"),
    "cov": ("--cov=.", "--cov-report=xml"),
    "django": ("--ds=django_settings", "--no-migrations"),
    "env": ("--pytest-env-verbose",),
    "html": ("--html=report.html", "--self-contained-html"),
    "instafail": ("--instafail",),
    "randomly": ("--randomly-seed=7",),
    "socket": ("--disable-socket", "--allow-hosts=127.0.0.1,localhost", "--allow-unix-socket"),
    "sugar": ("--force-sugar",),
    "timeout": ("--timeout=200", "--session-timeout=250"),
}
ORDERED = {
    "order": (),
    "order, before others": ("--indulgent-ordering",),
    "order, after others": ("--order-after-ff",),
}
REFUSED = {
    "forked": ("--forked",),
    "profiling": ("--profile",),
    "repeat": ("--count=2",),
    "rerunfailures": ("--reruns=1",),
    "socket, no loopback": ("--disable-socket",),
    "xdist": ("-n2",),
}
OTHERS = {
    "all that is harmless": tuple(
        chain.from_iterable(options for name, options in HARMLESS.items() if name != "bdd")
    ),
    "profiling": ("--profile",),
    "repeat": ("--count=2",),
    "rerunfailures": ("--reruns=1",),
}
MARKS = {
    "forked": "forked",
    "repeat": "repeat(2)",
    "rerunfailures": "flaky(reruns=1)",
}
OWN_TESTS = """
import asyncio
import os

import pytest


def test_mocked(dg_server, mocker):
    mocker.patch.dict(os.environ, ANSWER="42")
    assert os.environ["ANSWER"] == "42"


def test_in_parts(dg_server, subtests):
    with subtests.test("a part"):
        assert dg_server is not None


@pytest.mark.asyncio
async def test_asynchronous(dg_spec):
    await asyncio.sleep(0)
"""
MARKED = """
import pytest


@pytest.mark.{mark}
def test_mine(dg_server):
    assert dg_server is not None
"""


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory) -> dict[str, int]:
    """How many generations each server is asked for where no other plugin is installed."""
    alone = make_repository(tmp_path_factory.mktemp("alone"), "alone")
    run = alone.suite()
    assert run.code == 0, run.text
    return alone.generations


@pytest.fixture
def mine(crowded):
    crowded.write("django_settings.py", "SECRET_KEY = 'x'\nUSE_TZ = True\n")
    crowded.write("test_mine.py", OWN_TESTS)
    return crowded


@pytest.mark.parametrize("options", HARMLESS.values(), ids=HARMLESS)
def test_boots_and_measurements_are_the_same_with(mine, undisturbed, options):
    run = mine.suite(*options)
    assert run.code == 0, run.text
    assert mine.started == BOOTS
    assert mine.generations == undisturbed


@pytest.mark.parametrize("options", ORDERED.values(), ids=ORDERED)
def test_an_own_test_that_asks_to_run_first_costs_no_second_boot(mine, undisturbed, options):
    mine.write("test_mine.py", MARKED.format(mark="order(1)"))
    run = mine.suite(*options)
    assert run.code == 0, run.text
    assert mine.started == BOOTS
    assert mine.generations == undisturbed


@pytest.mark.parametrize("options", REFUSED.values(), ids=REFUSED)
def test_what_would_measure_again_or_otherwise_is_refused_by_name(mine, options):
    run = mine.suite(*options)
    assert run.code == 4, run.text
    assert options[0].partition("=")[0] in run.err.replace("-n 0", "-n2")
    assert not mine.started


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_such_a_mark_on_an_own_test_is_refused_by_name(mine, mark):
    mine.write("test_mine.py", MARKED.format(mark=mark))
    run = mine.suite()
    assert run.code == 4, run.text
    assert mark.partition("(")[0] in run.err
    assert "test_mine" in run.err
    assert not mine.started


@pytest.mark.parametrize("options", OTHERS.values(), ids=OTHERS)
def test_other_tests_may_have_all_of_it_beside_a_profile(mine, options):
    mine.write("pytest.ini", "[pytest]\ndg_profiles = mine.toml\n")
    mine.write("test_others.py", "def test_a():\n    pass\n")
    run = mine.pytest("test_others.py", *options)
    assert run.code == 0, run.text
    assert not mine.started
