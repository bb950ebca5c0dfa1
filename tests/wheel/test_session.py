"""Sessions in a repository of one's own, on stand-in servers, from the first to a red one."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from tests.conftest import Run
from tests.wheel.conftest import NONE, PROFILE, SPEC

ONE_SERVER = PROFILE.partition("[[servers]]\ndraft")[0]
SPEED = ("-k", "asked or throughput or mine")
STEADY, SLOWER = "0.01", "0.02"
"""Seconds of a step, long enough that rounds agree on a busy machine; and a planted loss."""
TOLD = "test_draft_is_fed_the_layers_it_was_trained_on"


def failed(run: Run) -> set[str]:
    """Names of the tests that pytest's summary calls failed."""
    return set(re.findall(r"^FAILED \S+::(\S+)", run.out, re.MULTILINE))


def test_the_suite_and_an_own_test_are_collected_for_the_same_servers(repository):
    before = repository.files()
    run = repository.suite("--collect-only", "-q", "-p", "no:cacheprovider")
    assert run.code == 0, run.text
    assert f"test_server_runs_what_was_asked_for[{SPEC}]" in run.out
    for server in (NONE, SPEC):
        assert f"test_mine.py::test_mine[{server}]" in run.out
    assert not repository.started
    made = {path for path in repository.files() - before if "__pycache__" not in path}
    assert made == {".benchmarks"}  # pytest-benchmark makes it in every session


def test_servers_boot_once_each_and_all_that_is_written_lies_in_the_repository(repository):
    run = repository.suite()
    assert run.code == 0, run.text
    assert repository.started == [NONE.replace("/", "--"), SPEC.replace("/", "--")]
    record = repository.record
    assert list(record["servers"]) == [NONE, SPEC]
    assert f"{SPEC}  ok     ok 192  ok [1, 3, 5]" in run.out  # the table
    assert (repository.record_path.parent / "report.html").is_file()  # the page
    assert "test_mine" in json.dumps(record["servers"][SPEC]["outcomes"])
    assert {path.partition("/")[0] for path in repository.files()} <= {
        *("artifacts", "mine.toml", "test_mine.py"),
        *(".benchmarks", ".pytest_cache", "__pycache__"),
    }


def test_a_path_outside_the_repository_moves_nothing_there(repository):
    """pytest takes the value of an option in two words for a place of tests, and moves its root."""
    run = repository.suite("-k", "asked", "--dg-server-python", str(repository.server_python))
    assert run.code == 0, run.text
    assert repository.record_path.is_file()
    assert not list(repository.server_python.parent.glob("artifacts"))
    assert not list(repository.folder.parent.glob("artifacts"))


def test_five_accepted_sessions_and_then_a_planted_loss_is_red(repository):
    repository.write("mine.toml", ONE_SERVER)
    for _ in range(10):  # a busy machine has some of them measured again
        run = repository.suite(*SPEED, FAKE_SGLANG_STEP_S=STEADY)
        assert run.code in (0, 1), run.text
        record = str(repository.record_path)
        repository.draftgate("accept", record, "--reason", "a good night")
        if len(list(repository.folder.glob("baselines/*/*.json"))) == 5:
            break
    else:
        pytest.fail("five sessions of ten were not good enough to be accepted")
    again = repository.suite(*SPEED, FAKE_SGLANG_STEP_S=STEADY)
    assert again.code == 0, again.text
    assert "recording" not in again.out
    slower = repository.suite(*SPEED, FAKE_SGLANG_STEP_S=SLOWER)
    assert slower.code == 1, slower.text
    assert failed(slower) == {f"test_throughput_is_that_of_the_baseline[{NONE}]"}


def test_a_draft_fed_other_layers_than_its_own_is_red_by_name(repository):
    models = repository.python.parents[1].glob("lib/*/site-packages/draftgate/models/builtin")
    draft = repository.folder / "draft"
    shutil.copytree(next(models) / "tiny-eagle3", draft)
    config = json.loads((draft / "config.json").read_text())
    config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = [0, 2, 3]
    (draft / "config.json").write_text(json.dumps(config))
    repository.write("mine.toml", PROFILE.replace("builtin:tiny-eagle3", "draft"))
    run = repository.suite("-k", "layers or asked", "--dg-no-preflight")
    assert run.code == 1, run.text
    assert failed(run) == {f"{TOLD}[{SPEC}]"}
    before = repository.suite("-k", "fit")
    assert before.code == 1, before.text
    assert failed(before) == {f"test_pair_and_flags_fit[{SPEC}]"}


def test_options_of_the_repository_s_pyproject_do_without_a_command_line(repository):
    repository.write(
        "pyproject.toml",
        "[tool.pytest.ini_options]\n"
        'addopts = ["--pyargs", "--strict-markers", "--import-mode=importlib"]\n'
        'testpaths = ["test_mine.py", "draftgate.suite"]\n'
        'filterwarnings = ["error"]\n'
        'dg_profiles = ["mine.toml"]\n'
        f'dg_server_python = "{repository.server_python}"\n'
        'dg_artifacts = "out"\n',
    )
    run = repository.pytest("-k", "asked or mine", "-m", "cpu", "draftgate.suite", "test_mine.py")
    assert run.code == 0, run.text
    assert len(repository.started) == 2
    assert list(repository.folder.glob("out/*/record.json"))


def test_a_configuration_that_pytest_does_not_read_is_named(repository):
    """It would have judged other servers than those that the repository names."""
    repository.write("pytest.ini", "[pytest]\ndg_profiles = mine.toml\n")
    run = repository.pytest(
        *("--pyargs", "draftgate.suite", "--dg-server-python", str(repository.server_python))
    )
    assert run.code == 4, run.text
    assert f"{repository.folder / 'pytest.ini'}: its options of draftgate are not read" in run.err
    assert "--dg-server-python=PATH" in run.err
    assert not repository.started
