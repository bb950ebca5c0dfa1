"""`--dg-attach`: judging servers that this run neither starts nor stops."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest
import requests
from draftgate.catalog.select import load_profiles
from draftgate.engine.attached import attach
from draftgate.engine.ports import free_port
from draftgate.errors import NotChecked
from draftgate.measure.record_file import read_record
from draftgate.models.location import locate
from draftgate.probes import hooks

from tests.conftest import ROOT

pytestmark = pytest.mark.extended

REFERENCE, SPECULATING = "tiny/none/cpu", "tiny/eagle3-s5k1d6/cpu"
EAGLE3 = (
    *("--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "5"),
    *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "6"),
)
EXPECTED = {
    "pair": "passed",
    "algorithm": "passed",
    "flags": "passed",
    "fc-width": "skipped",
    "returned-width": "passed",
    "step-widths": "skipped",
    "layers": "skipped",
    "text": "passed",
    "acceptance": "passed",
    "speed": "passed",
    "speed-change": "skipped",
}
KEY = "key-of-somebody-else"
USAGE_ERROR = 4


@pytest.fixture
def serve(fake_sglang, tmp_path):
    """Start a stand-in by hand, as somebody else would; its URL."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, target: Path | None = None) -> str:
        port = free_port()
        running.append(
            subprocess.Popen(
                [
                    *(fake_sglang, "-m", "sglang.launch_server", "--port", str(port)),
                    *("--model-path", str(target or locate("builtin:tiny").folder)),
                    *("--context-length", "1024", "--device", "cpu", *arguments),
                ],
                cwd=tmp_path,
                env={"PATH": os.environ["PATH"]},
                stderr=subprocess.DEVNULL,
            )
        )
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 30
        while not _answers(url):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return url

    start.running = running
    yield start
    for process in running:
        process.terminate()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return requests.get(url + "/health", timeout=5).status_code == 200
    except requests.ConnectionError:
        return False


@pytest.fixture
def eagle3(serve):
    def start(*arguments: str) -> str:
        draft = locate("builtin:tiny-eagle3").folder
        return serve("--speculative-draft-model-path", str(draft), *EAGLE3, *arguments)

    return start


def test_attached_servers_are_judged_and_left_alone(run_pytest, serve, eagle3, tmp_path):
    reference, speculating = serve(), eagle3("--enable-return-hidden-states")
    run = run_pytest(
        *("tests/suite", "--dg-attach", f"{REFERENCE}={reference}"),
        *("--dg-attach", f"{SPECULATING}={speculating}"),
    )
    assert run.code == 0, run.text
    assert f"attached: {REFERENCE} at {reference}" in run.out
    (session,) = (path.parent for path in (tmp_path / "artifacts").glob("*/record.json"))
    record = read_record(session / "record.json")
    outcomes = record.servers[SPECULATING].outcomes
    assert {check: outcomes[check] for check in EXPECTED} == EXPECTED
    assert run.out.count("not checked: tiny/eagle3-s5k1d6/cpu was not started with") == 3
    assert run.out.count("phases: not measured: the server was not started with draftgate's") == 2
    assert record.machine.machine_class == "attached-127-0-0-1"
    assert record.servers[SPECULATING].last.command == (f"attached to {speculating}",)
    assert record.servers[SPECULATING].last.throughput is not None
    assert record.software["sglang"] == "0.5.23"
    assert not list(session.glob("**/server.log"))
    assert [process.poll() for process in serve.running] == [None, None]


def test_with_the_observers_nothing_is_missing_but_the_log(run_pytest, eagle3, tmp_path):
    folder = tmp_path / "observed"
    folder.mkdir()
    url = eagle3("--enable-return-hidden-states", *hooks.probe_flags(folder))
    run = run_pytest("tests/suite", "--dg-attach", f"{SPECULATING}={url}", "-k", "not throughput")
    assert run.code == 0, run.text
    assert "ok 192  ok [1, 3, 5]" in run.out
    assert "not checked: " not in run.out
    with pytest.raises(NotChecked, match=f"the log of {url} cannot be read from here"):
        attach(url).log_text()


def test_what_was_not_checked_is_red_under_require_baseline(run_pytest, eagle3):
    url = eagle3()
    run = run_pytest("tests/suite", "--dg-attach", f"{SPECULATING}={url}", "--dg-require-baseline")
    assert run.code == 1
    assert "this was not judged" in run.out
    assert "was not started with --enable-return-hidden-states" in run.out
    assert "was not started with draftgate's observers (docs/attach.md)" in run.out


def test_models_under_other_paths_are_not_checked(run_pytest, serve, tmp_path):
    (tmp_path / "elsewhere").symlink_to(locate("builtin:tiny").folder)
    url = serve(target=tmp_path / "elsewhere")
    run = run_pytest("tests/suite", "--dg-attach", f"{REFERENCE}={url}", "-k", "asked_for")
    assert run.code == 0, run.text
    assert f"not checked: whether '{tmp_path}/elsewhere' of the attached server is what" in run.out


def test_a_wrong_flag_of_an_attached_server_is_red(run_pytest, serve):
    url = serve()
    run = run_pytest("tests/suite", "--dg-attach", f"{SPECULATING}={url}", "-k", "asked_for")
    assert run.code == 1
    assert "speculative_algorithm: asked for 'EAGLE3', the server runs None" in run.out


def test_the_key_comes_from_the_environment_and_is_shown_nowhere(run_pytest, serve, tmp_path):
    url = serve("--api-key", KEY)
    options = ("tests/suite", "--dg-attach", f"{REFERENCE}={url}", "-k", "asked_for")
    refused = run_pytest(*options)
    assert refused.code == USAGE_ERROR
    assert "/server_info answers 401: set DRAFTGATE_API_KEY in the environment" in refused.err
    run = run_pytest(*options, DRAFTGATE_API_KEY=KEY)
    assert run.code == 0, run.text
    (told,) = (tmp_path / "artifacts").glob("**/server_info.json")
    assert json.loads(told.read_text())["api_key"] == "***"
    for file in (tmp_path / "artifacts").glob("**/*"):
        assert file.is_dir() or KEY.encode() not in file.read_bytes(), file
    assert KEY not in run.text


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            ["--dg-attach", f"{REFERENCE}=http://127.0.0.1:9"],
            ["/server_info cannot be reached (ConnectionError). Is the URL right"],
        ),
        (["--dg-attach", REFERENCE], ["expected ID=URL", "draftgate list"]),
        (["--dg-attach", "tiny/none/cpu=localhost:30000"], ["expected ID=URL"]),
        (
            ["--dg-attach", "tiny/nine/cpu=http://h:1"],
            ["no server of tiny matches 'tiny/nine/cpu'"],
        ),
        (["--dg-attach", "tyny/none/cpu=http://h:1"], ["unknown profile 'tyny'"]),
        (
            ["--dg-attach", f"{REFERENCE}=http://h:1", "--dg-attach", f"{REFERENCE}=http://h:2"],
            ["given twice"],
        ),
        (
            ["--dg-attach", f"{REFERENCE}=http://h:1", "--dg-server", "none/cpu"],
            ["--dg-attach and --dg-server"],
        ),
        (
            ["--dg-attach", f"{REFERENCE}=http://me:hunter22@h:1"],
            ["the URL holds a user or a password", "DRAFTGATE_API_KEY"],
        ),
    ],
)
def test_a_wrong_attach_is_one_clear_error(run_pytest, given, words):
    run = run_pytest("tests/suite", *given)
    assert run.code == USAGE_ERROR, run.text
    for word in words:
        assert word in run.err
    assert "Traceback" not in run.text
    assert "hunter22" not in run.text


def test_a_server_that_goes_away_is_named_once(run_pytest, serve, tmp_path):
    url = serve()
    (tmp_path / "killer.py").write_text(
        "import os, signal\n"
        "def pytest_runtest_setup(item):\n"
        "    if 'equals_no_speculation' in item.name:\n"
        f"        os.kill({serve.running[0].pid}, signal.SIGKILL)\n"
    )
    run = run_pytest(
        *("tests/suite", "--dg-attach", f"{REFERENCE}={url}", "-p", "killer"),
        PYTHONPATH=str(tmp_path),
    )
    assert run.code == 1
    assert f"{url}/flush_cache" in run.out


def test_the_docs_name_the_observers_as_they_are_and_servers_that_exist(tmp_path):
    text = (ROOT / "docs" / "attach.md").read_text()
    flag, value = hooks.probe_flags(Path("/shared/observed"))
    assert f"{flag} '{value}'" in text
    profile = tmp_path / "mine.toml"
    (two_nodes,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    head = '[target]\npath = "/models/target"\n[drafts.mine]\npath = "/models/draft"\n'
    profile.write_text(head + two_nodes)
    ids = {spec.id for spec in load_profiles([profile])["mine"].servers}
    assert ids == {"mine/none-tp16/graph", "mine/mine-s3k1d4-tp16/graph"}
    assert "--dg-attach 'mine/mine-s3k1d4-tp16/graph=http://host-a:30000'" in text
