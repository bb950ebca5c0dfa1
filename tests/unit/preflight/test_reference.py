"""A speed with nothing to be compared with is told before the boot."""

from __future__ import annotations

import pytest

from fixtures.catalog.select import load_profiles
from fixtures.cli import main
from fixtures.preflight.reference import judge_reference

PROFILE = """
[target]
path = "builtin:tiny"
[drafts.mine]
path = "builtin:tiny-eagle3"
[prompts]
path = "builtin:tiny"
[throughput]
prompts = 4
[defaults]
devices = ["cpu"]
context_length = 1024
skip_tokenizer = true
[[servers]]
[[servers]]
draft = "mine"
num_steps = 3
topk = 1
num_draft_tokens = 4
label = "bs4"
throughput = {{ {given} }}
"""


@pytest.mark.parametrize(
    ("given", "difference"),
    [
        ("concurrency = 4", "throughput.concurrency = 4, there 1"),
        ("prompts = 2", "throughput.prompts = 2, there 4"),
        ("max_new_tokens = 8", "throughput.max_new_tokens = 8, there "),
        ("rounds = 9", ""),
    ],
)
def test_other_rounds_than_those_without_speculation(tmp_path, capsys, given, difference):
    file = tmp_path / "mine.toml"
    file.write_text(PROFILE.format(given=given))
    command = ["lint", "--profile", "mine/mine-s3k1d4-bs4/cpu", "--profiles", str(file)]
    assert main(command) == 0
    out = capsys.readouterr().out
    told = (
        "warning [other-rounds] no speed-up will be shown: mine/none/cpu is timed on other rounds"
    )
    assert (told in out) == bool(difference)
    assert difference in out
    # The remedy is enough.
    file.write_text(file.read_text() + f'[[servers]]\nlabel = "bs4"\nthroughput = {{ {given} }}\n')
    assert main(command) == 0
    assert "other-rounds" not in capsys.readouterr().out


def test_shipped_profiles_compare_speeds_of_the_same_rounds():
    for profile in load_profiles().values():
        servers = {spec.id: spec for spec in profile.servers}
        for spec in profile.servers:
            assert judge_reference(spec, servers.get(spec.reference_id or "")) == ()
