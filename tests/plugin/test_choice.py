"""Choosing what runs: profiles, servers, devices, interpreters; and every wrong choice."""

from __future__ import annotations

import re

import pytest
from draftgate.measure.machine import describe_machine

from tests.conftest import ROOT

SUITE = "tests/suite"
USAGE_ERROR = 4
NOTHING_RAN = 5


def collected(run) -> list[str]:
    """Spec ids in the order their tests would run."""
    ids = [line.split("[")[1].rstrip("]") for line in run.out.splitlines() if "::" in line]
    return list(dict.fromkeys(ids))


def test_servers_run_in_order_each_in_one_block(run_pytest):
    run = run_pytest(SUITE, "--collect-only", "-q")
    ids = [line.split("[")[1].rstrip("]") for line in run.out.splitlines() if "::" in line]
    assert collected(run) == [
        "tiny/none/cpu",
        "tiny/eagle3-s3k1d4/cpu",
        "tiny/eagle3-s5k1d6/cpu",
        "tiny/eagle3-s3k4d8/cpu",
        "tiny/embed-s3k1d4/cpu",
    ]
    blocks = [a for a, b in zip(ids, [*ids[1:], None], strict=True) if a != b]
    assert len(blocks) == len(set(blocks))


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        (("--dg-server", "*none*"), "1 server"),
        (("-m", "cpu"), "5 servers"),
        (("-k", "embed-s3"), "1 server"),
    ],
)
def test_servers_are_counted_when_all_is_chosen(run_pytest, chosen, count):
    run = run_pytest(SUITE, "--collect-only", *chosen)
    assert "draftgate: profile tiny; SGLang of " in run.out
    assert re.findall(r"draftgate: (\d+ servers?) chosen", run.out) == [count]


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("*s5k1d6*", ["tiny/eagle3-s5k1d6/cpu"]),
        ("none/cpu", ["tiny/none/cpu"]),
        ("tiny/*/cpu", 5),
    ],
)
def test_a_glob_chooses_servers(run_pytest, glob, expected):
    found = collected(run_pytest(SUITE, "--collect-only", "-q", "--dg-server", glob))
    assert found == expected if isinstance(expected, list) else len(found) == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dg-profile", "tyny"], ["unknown profile 'tyny'", "tiny"]),
        (["--dg-server", "*s9*"], ["no server of tiny matches '*s9*'"]),
        (
            ["--dg-profiles", "nowhere.toml"],
            ["--dg-profiles", "nowhere.toml: no such file or folder"],
        ),
        (["--dg-profile", "kimi-k25"], ["KIMI_K25_TARGET", "in the environment"]),
        (["-m", "gpu"], ["no NVIDIA GPU is visible here", "pytest -m cpu"]),
        (["--dg-server-python", "/nowhere/python"], ["/nowhere/python"]),
        (
            ["-n", "2", "--dg-server", "none/cpu"],
            ["1 throughput tests would be timed beside other servers", "-n 0", "not throughput"],
        ),
    ],
)
def test_a_wrong_choice_is_one_clear_error(run_pytest, arguments, words):
    run = run_pytest(SUITE, *arguments)
    assert run.code == USAGE_ERROR, run.text
    for word in words:
        assert word in run.text
    assert "Traceback" not in run.text
    assert len(run.err.strip().splitlines()) <= 4, run.err


@pytest.mark.parametrize(("has", "asked"), [("gpu", "cpu"), ("cpu", "gpu")])
def test_a_device_that_no_server_of_the_profile_has(run_pytest, tmp_path, has, asked):
    (tmp_path / "mine.toml").write_text(
        f'[target]\npath = "builtin:tiny"\n[defaults]\ndevices = "{has}"\n[[servers]]\n'
    )
    run = run_pytest(SUITE, "-m", asked, "--dg-profiles", str(tmp_path / "mine.toml"))
    assert run.code == USAGE_ERROR, run.text
    assert f"-m {asked}: mine has no server for " in run.err
    assert 'devices = ["cpu", "gpu"]' in run.err
    assert "draftgate: profile mine; SGLang of " in run.out


def test_a_target_without_a_tokenizer_is_told_before_the_boot(run_pytest, tmp_path):
    """The built-in pair has none; its profile says so, and this one does not."""
    profile = tmp_path / "mine.toml"
    lines = ['[target]\npath = "builtin:tiny"\n[defaults]\ndevices = "cpu"']
    profile.write_text("\n".join([*lines, "[[servers]]"]))
    run = run_pytest(SUITE, "--dg-profiles", str(profile))
    assert run.code == 1, run.text
    assert "mine/none/cpu was not booted: [tokenizer] " in run.out
    assert "holds no tokenizer" in run.out
    assert "skip_tokenizer = true" in run.out

    draft = '[drafts.one]\npath = "builtin:tiny-eagle3"\n'
    server = '[[servers]]\ndraft = "one"\nnum_steps = 3\ntopk = 1\nnum_draft_tokens = 4\n'
    profile.write_text("\n".join([*lines, draft, server]))
    run = run_pytest(SUITE, "--dg-profiles", str(profile), "-k", "pair_and_flags")
    assert run.code == 1, run.text
    assert "FAILED tests/suite/test_1_pair.py::test_pair_and_flags_fit" in run.out

    profile.write_text("\n".join([*lines, "skip_tokenizer = true", "[[servers]]"]))
    run = run_pytest(SUITE, "--dg-profiles", str(profile))
    assert run.code == 1, run.text
    assert "rendering chat prompts with the tokenizer of" in run.out
    assert "if it has no tokenizer at all, as input_ids" in run.out


def test_an_interpreter_without_sglang(run_pytest, interpreter):
    run = run_pytest(SUITE, "--dg-server-python", str(interpreter()))
    assert run.code == USAGE_ERROR
    assert "holds no SGLang" in run.err
    assert "--dg-server-python" in run.err


def test_an_interpreter_with_an_old_sglang(run_pytest, interpreter):
    run = run_pytest(SUITE, "--dg-server-python", str(interpreter(sglang="0.4.6")))
    assert run.code == USAGE_ERROR
    assert "SGLang 0.4.6; the oldest supported version is 0.5.10" in run.err


def test_the_cpu_engine_serves_one_version(run_pytest, interpreter):
    run = run_pytest(
        SUITE, "--dg-server", "none/cpu", "--dg-server-python", str(interpreter(sglang="0.5.16"))
    )
    assert run.code == 1
    assert "the CPU engine serves SGLang 0.5.23" in run.out
    assert "holds 0.5.16" in run.out


def test_what_cannot_be_measured_here_is_listed_by_name(run_pytest):
    run = run_pytest(SUITE, "--dg-profile", "tiny", "--dg-server", "*eagle3-s5k1d6/graph")
    assert run.code == NOTHING_RAN
    assert "tiny/eagle3-s5k1d6/graph: needs 1 GPU, none visible" in run.out


def test_unit_tests_need_neither_profile_nor_server(run_pytest):
    run = run_pytest("tests/unit/gate/test_flags.py", "-q", "--dg-profile", "tyny")
    assert run.code == 0, run.text


def test_options_may_stand_in_an_ini_file(run_pytest):
    run = run_pytest(SUITE, "--collect-only", "-q", "-o", "dg_server=none/cpu")
    assert collected(run) == ["tiny/none/cpu"]


def test_nothing_heavy_is_imported_before_a_server_is_launched(run_pytest, tmp_path):
    (tmp_path / "spy.py").write_text(
        "import sys\n"
        "def pytest_collection_finish(session):\n"
        "    heavy = {'torch', 'sglang', 'transformers', 'numpy', 'scipy'} & set(sys.modules)\n"
        "    sys.stderr.write(f'heavy: {sorted(heavy)}\\n')\n"
    )
    run = run_pytest(SUITE, "--collect-only", "-q", "-p", "spy", PYTHONPATH=str(tmp_path))
    assert "heavy: []" in run.err


def test_a_profile_of_ones_own_need_not_be_named(run_pytest, tmp_path):
    shipped = ROOT / "fixtures" / "draftgate" / "catalog" / "profiles" / "tiny.toml"
    (tmp_path / "mine.toml").write_text(shipped.read_text())
    options = [SUITE, "--collect-only", "-q", "--dg-server", "none/cpu", "--dg-profiles"]
    assert collected(run_pytest(*options, str(tmp_path / "mine.toml"))) == ["mine/none/cpu"]

    (tmp_path / "other.toml").write_text(shipped.read_text())
    two = run_pytest(*options, str(tmp_path))
    assert two.code == USAGE_ERROR
    assert "--dg-profiles holds 2 profiles (mine, other); choose with --dg-profile NAME" in two.err


def test_unusable_folders_are_refused_before_anything_boots(run_pytest, tmp_path):
    (tmp_path / "file").touch()
    options = [SUITE, "--dg-server", "none/cpu"]
    run = run_pytest(*options, "--dg-artifacts", str(tmp_path / "file" / "below"))
    assert run.code == USAGE_ERROR
    assert "cannot be written (Not a directory)" in run.err

    machine_class = describe_machine("cpu", (), None).machine_class
    corrupt = tmp_path / "baselines" / machine_class / "broken.json"
    corrupt.parent.mkdir(parents=True)
    corrupt.write_text('{"schema": 2, "sess')
    run = run_pytest(*options, "--dg-baselines", str(tmp_path / "baselines"))
    assert run.code == USAGE_ERROR
    assert "broken.json: not a whole JSON object" in run.err


def test_a_target_that_was_not_fetched_is_said_before_anything_boots(run_pytest, fake_sglang):
    run = run_pytest(
        SUITE, "--dg-profile", "smollm2", "-m", "cpu", "--dg-server-python", fake_sglang
    )
    assert run.code == NOTHING_RAN
    for server in ("none", "eagle3-s3k1d4"):
        assert f"smollm2/{server}/cpu: fetched:smollm2: not fetched yet" in run.text
    assert "draftgate models get smollm2" in run.text
