"""draftgate in a folder of the user's own, outside any checkout."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from draftgate.measure.record_file import read_record

from tests.plugin.conftest import NONE, PROFILE, SPEC, STEP_S

USAGE_ERROR = 4
SUITE = ("--pyargs", "draftgate.suite")
LIGHT = {
    "draftgate",
    *(f"draftgate.plugin{end}" for end in ("", ".options", ".asked", ".fixtures")),
}
"""What a session imports of draftgate that asks for nothing of it."""
SPY = """
import json, sys
def pytest_report_header():
    sys.stderr.write(json.dumps(sorted(sys.modules)) + "\\n")
"""
OWN = "def test_of_somebody(benchmark):\n    benchmark(sorted, [2, 1])\n"


@pytest.fixture
def stand_in(elsewhere, fake_sglang, tmp_path):
    """Options of a pair of stand-in servers, which stand in the folder's own configuration."""
    (elsewhere / "mine.toml").write_text(PROFILE)
    (elsewhere / "pyproject.toml").write_text(
        "[tool.pytest]\n"
        'dg_profiles = ["mine.toml"]\n'
        f'dg_server_python = "{fake_sglang}"\n'
        'filterwarnings = ["error"]\n'
        'addopts = ["--strict-markers", "-p", "no:cacheprovider"]\n'
    )
    return {"XDG_RUNTIME_DIR": str(tmp_path), "FAKE_SGLANG_STEP_S": str(STEP_S)}


def test_the_suite_runs_there(run_elsewhere, elsewhere, stand_in):
    run = run_elsewhere(*SUITE, **stand_in)
    assert run.code == 0, run.text
    (path,) = elsewhere.glob("artifacts/*/record.json")
    record = read_record(path)
    assert list(record.servers) == [NONE, SPEC]
    assert (elsewhere / "artifacts" / "history").is_dir()
    assert f"record and logs: artifacts/{record.session}" in run.out

    accept = (sys.executable, "-m", "draftgate.cli", "accept", str(path.parent), "--reason", "good")
    subprocess.run(accept, cwd=elsewhere, check=True)
    assert len(list(elsewhere.glob("baselines/*/*.json"))) == 1


def test_it_runs_there_on_workers(run_elsewhere, elsewhere, stand_in):
    run = run_elsewhere(*SUITE, "-n", "2", "-k", "not throughput", **stand_in)
    assert run.code == 0, run.text
    (path,) = elsewhere.glob("artifacts/*/record.json")
    assert list(read_record(path).servers) == [NONE, SPEC]


@pytest.mark.parametrize("extra", [(), ("-n", "2")])
def test_a_session_that_asks_for_nothing_is_left_alone(run_elsewhere, elsewhere, extra):
    (elsewhere / "test_own.py").write_text(OWN)
    run = run_elsewhere("--benchmark-autosave", *extra)
    assert run.code == 0, run.text
    # pytest itself lists the plugins that an environment holds, asked for or not.
    own = [line for line in run.out.splitlines() if not line.startswith("plugins: ")]
    assert "draftgate" not in "\n".join(own).replace(str(elsewhere), "")
    assert {path.name for path in elsewhere.iterdir()} <= {
        "test_own.py",
        ".benchmarks",
        "__pycache__",
    }


def test_such_a_session_imports_next_to_nothing(run_elsewhere, elsewhere):
    (elsewhere / "spy.py").write_text(SPY)
    (elsewhere / "test_own.py").write_text(OWN)

    def imported(*options, **more):
        words = ("-p", "spy", "--collect-only", *options)
        run = run_elsewhere(*words, PYTHONPATH=str(elsewhere), **more)
        return set(json.loads(run.err.splitlines()[0]))

    assert imported() - imported(plugin="no:draftgate.plugin") == LIGHT
    assert "pydantic" in imported(*SUITE)


def test_an_environment_below_the_folder_is_not_the_suite(run_elsewhere, elsewhere, monkeypatch):
    from draftgate.plugin import asked

    site = elsewhere / "venv" / "site-packages"
    (site / "draftgate" / "suite").mkdir(parents=True)
    monkeypatch.setattr(asked, "SUITE", site / "draftgate" / "suite")
    for argument, is_suite in [(elsewhere, False), (site / "draftgate" / "suite", True)]:
        config = type("Config", (), {})()
        config.args = [str(argument)]
        config.option = type("Option", (), {"pyargs": False})
        config.invocation_params = type("Parameters", (), {"dir": elsewhere})
        assert asked.touches_suite(config) is is_suite


@pytest.mark.parametrize("option", ["--profiles", "--server-python=x", "--boots"])
def test_a_former_option_names_the_new_one(run_elsewhere, option):
    run = run_elsewhere(option)
    name = option.partition("=")[0]
    assert run.code == USAGE_ERROR
    assert f"ERROR: {name}: draftgate's option is called --dg-{name[2:]} now" in run.err


def test_a_former_option_may_be_that_of_another_plugin(run_elsewhere, elsewhere):
    (elsewhere / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--profile', action='store_true')\n"
    )
    (elsewhere / "test_own.py").write_text(
        "def test(pytestconfig):\n    assert pytestconfig.option.profile\n"
    )
    assert run_elsewhere("--profile").code == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('draftgate_boots = "2"', "draftgate_boots: this key is called dg_boots now"),
        ("dg_boots = 0", "--dg-boots 0: expected how often each server boots"),
        ('dg_boots = "two"', "config option 'dg_boots' expects an int"),
        ('dg_profiles = ["no.toml"]', "elsewhere/no.toml: no such file or folder"),
    ],
)
def test_a_wrong_key_is_one_clear_error(run_elsewhere, elsewhere, line, message):
    (elsewhere / "pyproject.toml").write_text(f"[tool.pytest]\n{line}\n")
    (elsewhere / "below").mkdir()
    run = run_elsewhere("below")
    assert run.code == USAGE_ERROR
    assert message in run.err
    assert "Traceback" not in run.text
