"""Tests of a user's own, beside the suite and without it, as docs/own-tests.md shows them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from draftgate.measure.record_file import read_record

from tests.conftest import ROOT
from tests.plugin.conftest import NONE, PROFILE, SPEC, STEP_S

USAGE_ERROR = 4
PAGE = (ROOT / "docs" / "own-tests.md").read_text()
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
WHOLE, STEPS, SHORT = (
    f"test_mine::{name}"
    for name in ("test_answers_are_whole", "test_verify_steps_are_few", "test_short_answer")
)
FIGURE = """
import os
def test_cost(dg_server, dg_figure):
    dg_figure("cost", float(os.environ["COST"]), unit="ms", higher_is_better=False, gate=True)
"""


@pytest.fixture
def own(elsewhere, run_elsewhere, fake_sglang, tmp_path):
    """Run pytest in a folder that holds the example of the page, on stand-in servers."""
    (elsewhere / "mine.toml").write_text(PROFILE)
    (elsewhere / "test_mine.py").write_text(EXAMPLE)
    environment = {"XDG_RUNTIME_DIR": str(tmp_path), "FAKE_SGLANG_STEP_S": str(STEP_S)}

    def run(*arguments, **more):
        options = ("--dg-profiles", "mine.toml", "--dg-server-python", str(fake_sglang))
        return run_elsewhere(*arguments, *options, **environment | more)

    return run


def newest(elsewhere):
    return read_record(max(elsewhere.glob("artifacts/*/record.json")))


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_example_runs_alone(own, elsewhere, workers):
    run = own("test_mine.py", "-n", workers)
    assert run.code == 0, run.text
    record = newest(elsewhere)
    assert list(record.servers) == [NONE, SPEC]
    assert record.servers[NONE].outcomes == {WHOLE: "passed", SHORT: "passed"}
    assert record.servers[SPEC].outcomes == {WHOLE: "passed", STEPS: "skipped", SHORT: "passed"}
    (steps, short) = record.servers[SPEC].last.figures
    assert (steps.check, steps.name, steps.unit, steps.gate) == (
        STEPS,
        "steps of four",
        "steps",
        True,
    )
    assert (short.check, short.name, short.gate) == (SHORT, "short answer", False)
    (verdict,) = record.servers[SPEC].verdicts
    assert (verdict.check, verdict.metric, verdict.status) == (STEPS, "steps of four", "recording")
    page = (elsewhere / "artifacts" / record.session / "report.html").read_text()
    markdown = (elsewhere / "artifacts" / record.session / "report.md").read_text()
    for text in (run.out, page, markdown.replace("\\_", "_")):
        assert STEPS in text
        assert f"steps of four {steps.value:.4g} steps" in text


def test_it_shares_the_boots_of_the_suite(own, elsewhere):
    run = own(
        "test_mine.py", "--pyargs", "draftgate.suite", "--dg-boots", "2", "-k", "test_mine or asked"
    )
    assert run.code == 0, run.text
    assert run.out.count("  ready") == 4
    server = newest(elsewhere).servers[SPEC]
    assert {"flags", WHOLE, STEPS, SHORT} == server.outcomes.keys()
    assert [len(boot.figures) for boot in server.boots] == [2, 2]
    assert len([v for v in server.verdicts if v.check == STEPS]) == 1


def test_a_gated_figure_is_judged_from_five_sessions_on(own, elsewhere):
    (elsewhere / "test_mine.py").write_text(FIGURE)
    suite = ("test_mine.py", "--pyargs", "draftgate.suite", "--dg-server", "none/cpu")
    for cost in ("10.0", "10.1", "9.95", "10.02", "10.05"):
        run = own(*suite, COST=cost)
        assert run.code == 0, run.text
        path = max(elsewhere.glob("artifacts/*/record.json"))
        accept = (sys.executable, "-m", "draftgate.cli", "accept", str(path), "--reason", "good")
        subprocess.run(accept, cwd=elsewhere, check=True)
    assert own("test_mine.py", "--dg-server", "none/cpu", COST="10.03").code == 0
    (verdict,) = newest(elsewhere).servers[NONE].verdicts
    assert verdict.status == "pass"

    run = own("test_mine.py", "--dg-server", "none/cpu", COST="12")
    assert run.code == 1
    assert f"{NONE}: cost: worse: 12 ms against 10.02 (+19.7%" in run.out
    (verdict,) = newest(elsewhere).servers[NONE].verdicts
    assert (verdict.check, verdict.status) == ("test_mine::test_cost", "regression")
    assert f"{NONE} test_mine::test_cost" not in run.err


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("'x', float('nan')", "x = nan: expected a finite number"),
        ("'x', 'fast'", "x = 'fast': expected a finite number"),
        ("'x', 0, gate=True", "x = 0: expected a positive number, since it is gated"),
        ("'', 1", "the name '': expected up to 40 letters"),
        ("'throughput', 1", "'throughput' is a metric of the suite"),
        ("'x', 1); dg_figure('x', 2", "'x' was recorded on this boot already"),
    ],
)
def test_a_figure_that_cannot_be_kept_is_one_clear_error(own, elsewhere, call, message):
    (elsewhere / "test_mine.py").write_text(f"def test(dg_figure):\n    dg_figure({call})\n")
    run = own("test_mine.py", "--dg-server", "none/cpu")
    assert run.code == 1
    assert f"MeasurementError: dg_figure of test_mine::test: {message}" in run.out


def test_parameters_share_one_check(own, elsewhere):
    (elsewhere / "test_mine.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test(dg_figure, n):\n"
        "    dg_figure('p', n)\n"
    )
    run = own("test_mine.py", "--dg-server", "none/cpu")
    assert run.code == 1
    assert "the parameters of a test share one check; put the parameter into the name" in run.out
    assert 'dg_figure(f"p {n}", ...)' in run.out


def test_a_server_that_died_in_its_last_test_is_that_test_s_error(own, elsewhere):
    (elsewhere / "test_mine.py").write_text(
        "import os, signal, time\n"
        "def test_first(dg_server): pass\n"
        "def test_last(dg_server):\n"
        "    os.kill(dg_server.handle.process.pid, signal.SIGKILL)\n"
        "    time.sleep(0.5)\n"
    )
    run = own("test_mine.py")
    assert run.code == 1, run.text
    for server in (NONE, SPEC):
        assert f"ERROR test_mine.py::test_last[{server}] - ServerDied: " in run.out
        outcomes = newest(elsewhere).servers[server].outcomes
        assert outcomes == {"test_mine::test_first": "passed", "test_mine::test_last": "error"}


def test_two_files_of_one_name_are_told_apart_by_their_user(own, elsewhere):
    (elsewhere / "below").mkdir()
    (elsewhere / "below" / "test_mine.py").write_text(EXAMPLE)
    run = own("--import-mode=importlib", "--collect-only", ".")
    assert run.code == USAGE_ERROR
    assert f"a record calls tests of both {WHOLE}; rename one of the files" in run.err


def test_a_profile_that_cannot_be_is_an_error_once_a_test_needs_it(own, elsewhere):
    run = own("test_mine.py", "--dg-profile", "tyny")
    assert run.code == USAGE_ERROR
    assert "unknown profile 'tyny'" in run.err
    (elsewhere / "test_mine.py").write_text("def test():\n    pass\n")
    assert own("test_mine.py", "--dg-profile", "tyny").code == 0


def test_options_are_needed_with_workers(run_elsewhere, elsewhere):
    (elsewhere / "test_mine.py").write_text(EXAMPLE)
    run = run_elsewhere("test_mine.py", "-n", "1")
    assert run.code == 1, run.text
    assert "With pytest-xdist, ask for draftgate by an option or ini key too" in run.out


@pytest.mark.parametrize(
    ("module", "option", "mark", "words"),
    [
        ("rerunfailures", ("--reruns", "2"), "", "pytest-rerunfailures: --reruns is given"),
        ("rerunfailures", (), "flaky", "pytest-rerunfailures: test_fast is marked flaky"),
        ("pytest_repeat", ("--count", "2"), "", "pytest-repeat: --count is given"),
        ("pytest_forked", ("--forked",), "", "pytest-forked: --forked is given"),
        ("pytest_retry", ("--retries", "1"), "", "leave out --retries for draftgate's tests"),
        ("pytest_retry", (), "flaky(retries=1)", "leave out the marker flaky"),
        ("rerunfailures", ("-o", "reruns=2"), "", "the ini key reruns is given"),
        ("pytest_flakefinder", ("--flake-finder",), "", "leave out --flake-finder"),
        ("pytest_run_parallel.plugin", ("--parallel-threads", "2"), "", "--parallel-threads is"),
        ("pytest_run_parallel.plugin", (), "iterations(2)", "leave out the marker iterations"),
        ("pytest_run_parallel.plugin", (), "parallel_threads(1)", ""),
        ("pytest_forked", (), "", ""),
        ("pytest_repeat", ("--count", "1"), "", ""),
    ],
)
def test_a_plugin_that_would_falsify_is_refused_by_name(
    own, elsewhere, module, option, mark, words
):
    """Stand-ins of the plugins: `tox -e wheel` has the real ones."""
    names = {
        "rerunfailures": "'--reruns', type=int",
        "pytest_repeat": "'--count', type=int",
        "pytest_forked": "'--forked', action='store_true'",
        "pytest_retry": "'--retries', type=int",
        "pytest_flakefinder": "'--flake-finder', action='store_true', dest='flake_finder_enable'",
        "pytest_run_parallel.plugin": "'--parallel-threads', default=1",
    }
    path = elsewhere / f"{module.replace('.', '/')}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        "def pytest_addoption(parser):\n"
        f"    parser.addoption({names[module]})\n"
        "    parser.addini('reruns', 'as the option')\n"
    )
    (elsewhere / "test_mine.py").write_text(
        f"import pytest\n{f'@pytest.mark.{mark}' if mark else ''}\ndef test_fast(dg_spec): pass\n"
    )
    run = own("-p", module, *option, "test_mine.py", "--collect-only", PYTHONPATH=str(elsewhere))
    assert run.code == (USAGE_ERROR if words else 0), run.text
    assert words in run.err


def test_the_decorator_of_flaky_is_refused_by_name(own, elsewhere):
    (elsewhere / "flaky.py").touch()
    (elsewhere / "test_mine.py").write_text(
        "def test_fast(dg_spec): pass\ntest_fast._flaky_max_runs = 2\n"
    )
    run = own("-p", "flaky", "test_mine.py", "--collect-only", PYTHONPATH=str(elsewhere))
    assert run.code == USAGE_ERROR
    assert "flaky: test_fast is decorated by @flaky" in run.err


def test_the_order_of_boots_is_draftgate_s(own, elsewhere):
    (elsewhere / "shuffle.py").write_text(
        "import pytest\n"
        "@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
        "def pytest_collection_modifyitems(items):\n"
        "    yield\n"
        "    items.reverse()\n"
    )
    words = ("test_mine.py", "--collect-only", "-q", "--dg-boots", "2")
    shuffled = own("-p", "shuffle", *words, PYTHONPATH=str(elsewhere))
    assert shuffled.code == 0
    assert shuffled.out.splitlines()[:9] == own(*words).out.splitlines()[:9]
