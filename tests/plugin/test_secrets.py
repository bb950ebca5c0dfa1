"""Keys and tokens that a run knows, or a server tells, stand in no artifact and in no message."""

from __future__ import annotations

import shlex

import pytest

pytestmark = pytest.mark.extended

PLANTED = {
    "HF_TOKEN": "hf_PlantedTokenOfTheHub0001",
    "DRAFTGATE_API_KEY": "planted-key-0002",
    "HF_ENDPOINT": "https://me:planted-pass-0003@hub.example",
    "AWS_SECRET_ACCESS_KEY": "planted-secret-0004",
}
IN_THE_PROFILE = "planted-in-profile-0005"
IN_THE_LOG = "planted-bearer-0006"
VALUES = [
    *(value for name, value in PLANTED.items() if name != "HF_ENDPOINT"),
    *("planted-pass-0003", IN_THE_PROFILE, IN_THE_LOG),
]
PROFILE = f"""
[target]
path = "builtin:tiny"
[prompts]
path = "builtin:tiny"
count = 2
max_new_tokens = 16
[throughput]
prompts = 2
max_new_tokens = 16
rounds = 2
[defaults]
devices = ["cpu"]
context_length = 1024
skip_tokenizer = true
[[servers]]
args = ["--ssl-keyfile-password", "{IN_THE_PROFILE}"]
env = {{ MY_AUTH_TOKEN = "{IN_THE_PROFILE}", FAKE_SGLANG_FAULT = "<FAULT>" }}
"""


@pytest.fixture
def telling(fake_sglang, tmp_path):
    """Options for a stand-in that writes everything secret it knows into its log."""
    python = tmp_path / "telling"
    python.write_text(
        "#!/bin/sh\n"
        'case "$*" in *sglang.launch_server*)\n'
        f'  echo "POST /generate Authorization: Bearer {IN_THE_LOG}" >&2\n'
        '  echo "argv: $*" >&2\n'
        "  env >&2;;\n"
        "esac\n"
        f'exec {shlex.quote(str(fake_sglang))} "$@"\n'
    )
    python.chmod(0o755)

    def choose(fault: str) -> list[str]:
        profile = tmp_path / "mine.toml"
        profile.write_text(PROFILE.replace("<FAULT>", fault))
        return ["tests/suite", "--dg-profiles", str(profile), "--dg-server-python", str(python)]

    return choose


@pytest.mark.parametrize(
    ("fault", "workers", "code"),
    [("none", "0", 0), ("none", "2", 0), ("exit_3", "0", 1), ("scheduler_killed@2", "0", 1)],
)
def test_no_planted_value_is_shown_or_kept(run_pytest, telling, tmp_path, fault, workers, code):
    run = run_pytest(
        *(*telling(fault), "-n", workers, "--benchmark-disable", "-vv", "-rA"),
        XDG_RUNTIME_DIR=str(tmp_path),
        **PLANTED,
    )
    assert run.code == code, run.text
    logs = list((tmp_path / "artifacts").glob("**/server.log"))
    assert [("Authorization: Bearer ***" in log.read_text()) for log in logs] == [True]
    kept = [file for file in (tmp_path / "artifacts").glob("**/*") if file.is_file()]
    assert len(kept) >= 4
    for value in VALUES:
        assert value not in run.text
        assert [file for file in kept if value.encode() in file.read_bytes()] == []


def test_an_open_address_needs_a_key(run_pytest, telling, tmp_path):
    options = telling("none")
    profile = tmp_path / "mine.toml"
    profile.write_text(profile.read_text().replace("[defaults]", '[defaults]\nhost = "0.0.0.0"'))
    run = run_pytest(*options)
    assert run.code == 4
    assert "'0.0.0.0' can be reached by others: set DRAFTGATE_API_KEY" in run.err
    assert not (tmp_path / "artifacts").exists()
