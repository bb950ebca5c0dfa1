"""A speed with nothing to be compared with is told before the boot."""

from __future__ import annotations

import pytest
from draftgate.catalog.select import load_profiles
from draftgate.cli import main
from draftgate.preflight.server import judge_reference

from tests.plugin.conftest import SHORT

PROFILE = (
    SHORT
    + """
devices = ["cpu"]
[[servers]]
[[servers]]
draft = "eagle3"
num_steps = 3
topk = 1
num_draft_tokens = 4
label = "bs4"
"""
)


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
    asked = f"throughput = {{ {given} }}\n"
    file.write_text(f"{PROFILE}{asked}")
    command = ["lint", "--profile", "mine/eagle3-s3k1d4-bs4/cpu", "--profiles", str(file)]
    assert main(command) == 0
    out = capsys.readouterr().out
    told = (
        "warning [other-rounds] no speed-up will be shown: mine/none/cpu is timed on other rounds"
    )
    assert (told in out) == bool(difference)
    assert difference in out
    # The remedy is enough.
    file.write_text(f'{PROFILE}{asked}[[servers]]\nlabel = "bs4"\n{asked}')
    assert main(command) == 0
    assert "other-rounds" not in capsys.readouterr().out


def test_shipped_profiles_compare_speeds_of_the_same_rounds():
    for profile in load_profiles().values():
        for spec in profile.servers:
            assert judge_reference(spec, profile.servers) == ()
