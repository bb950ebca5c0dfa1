"""A session that asks for nothing of draftgate is as it is without draftgate."""

from __future__ import annotations

import re
import sys

import pytest

OTHER_TESTS = """
import pytest

pytestmark = pytest.mark.speculative


@pytest.mark.parametrize("spec", ["a", "b"])
def test_fixtures(session, spec, boot, server, subject, judged, booted, benchmarks):
    assert (session, boot, server) == ("own session", "own boot", "own server")


@pytest.mark.gpu
def test_marked(spec):
    assert spec == "own spec"


@pytest.mark.cpu
def test_plain():
    pass
"""
OWN = ("session", "spec", "boot", "server", "subject", "judged", "booted", "benchmarks")
CONFTEST = "import pytest\n" + "".join(
    f"\n\n@pytest.fixture\ndef {name}():\n    return 'own {name}'\n" for name in OWN
)
MARKERS = ["gpu: needs a GPU", "cpu: needs none", "speculative: might fail"]
SPY = """
import sys
from pathlib import Path


def pytest_unconfigure():
    Path("modules").write_text("\\n".join(sys.modules))
"""
WITHOUT = ("-p", "no:draftgate.plugin")
SESSIONS = [
    (),
    ("-v",),
    ("--collect-only",),
    ("-m", "gpu"),
    ("-m", "cpu"),
    ("--strict-markers", "-W", "error"),
    ("-p", "no:cacheprovider"),
    ("--import-mode=prepend",),
    ("--import-mode=importlib",),
    ("--markers", "-q"),
]


@pytest.fixture
def others(repository):
    """A repository whose tests and conftest.py know nothing of draftgate."""
    for name in ("mine.toml", "test_mine.py"):
        (repository.folder / name).unlink()
    repository.write("test_others.py", OTHER_TESTS)
    repository.write("conftest.py", CONFTEST)
    repository.write("pyproject.toml", f"[tool.pytest.ini_options]\nmarkers = {MARKERS}\n")
    return repository


def _told(text: str) -> list[str]:
    """What a session printed, but for the list of plugins, its duration and draftgate's markers."""
    lines = re.sub(r"in \d+\.\d+s", "in TIME", text).splitlines()
    return [line for line in lines if not line.startswith("plugins: ")]


@pytest.mark.parametrize("options", SESSIONS, ids=" ".join)
def test_it_prints_writes_and_runs_the_same(others, options):
    without = others.pytest(*WITHOUT, *options)
    assert without.code == 0, without.text
    files = others.files()
    with_it = others.pytest(*options)
    assert with_it.code == 0, with_it.text
    told = [line for line in _told(with_it.text) if not re.match(r"@pytest.mark.(dg_|.pu\b)", line)]
    expected = [line for line in _told(without.text) if not re.match(r"@pytest.mark..pu\b", line)]
    assert [line for line in told if line] == [line for line in expected if line]
    assert others.files() == files


def test_it_imports_nothing_but_a_little_of_draftgate(others, capsys):
    others.write("spy.py", SPY)

    def modules(*options: str) -> set[str]:
        run = others.pytest("--collect-only", "-p", "spy", *options, PYTHONPATH=".")
        assert run.code == 0, run.text
        return set((others.folder / "modules").read_text().splitlines())

    more = modules() - modules(*WITHOUT)
    own = {name for name in more if name.partition(".")[0] == "draftgate"}
    assert "draftgate.plugin" in own
    assert more - own <= sys.stdlib_module_names  # those of other distributions take their time
    took = min(_milliseconds(others, own, more) for _ in range(3))
    with capsys.disabled():
        # A worker of pytest-xdist has no other way to the terminal.
        sys.stderr.write(f"\na session of other tests imports {sorted(own)}: {took:.1f} ms\n")


def _milliseconds(others, own: set[str], more: set[str]) -> float:
    """How long Python says that it takes to import `more` with draftgate's `own`, beside pytest."""
    command = f"import pytest, {', '.join(sorted(own))}"
    told = others.run(others.python, "-X", "importtime", "-c", command).err
    times = re.findall(r"import time: +(\d+) \| +\d+ \| +(\S+)", told)
    return sum(int(time) for time, name in times if name in more) / 1000
