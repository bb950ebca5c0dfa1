"""What a server that cannot be booted leaves: one test that says why, and short pointers to it."""

from __future__ import annotations

import re

import pytest

from tests.plugin.conftest import NONE, PROFILE, SPEC

PAIR_TEST, PAIR = "test_pair_and_flags_fit", "pair"


def reasons(run) -> set[str]:
    """Why tests were skipped, as `-rs` says it."""
    return set(re.findall(r"^SKIPPED \[\d+\] [^:]+:\d+: (.*)$", run.out, re.MULTILINE))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (("builtin:tiny-eagle3", "nowhere/of/mine"), "nowhere/of/mine: no such model folder"),
        (
            ("acceptance_floor", 'args = ["--disable-radix-cach"]\nacceptance_floor'),
            "[unknown-flag] --disable-radix-cach is the beginning of a flag",
        ),
    ],
    ids=["draft", "flag"],
)
def test_what_is_wrong_with_a_pair_is_said_once(stand_in, tmp_path, wrong, words):
    (tmp_path / "mine.toml").write_text(PROFILE.replace(*wrong))
    run = stand_in.run(
        "-rs", "--dg-require-baseline", "-k", f"{PAIR_TEST} or fc or asked or acceptance"
    )
    server = stand_in.record().servers[SPEC]
    failed = [check for check, outcome in server.outcomes.items() if outcome != "skipped"]
    assert failed == [PAIR]
    assert words in server.messages[PAIR].text
    assert reasons(run) == {f"not booted: see check {PAIR}"}
    assert not server.boots
    assert stand_in.record().servers[NONE].boots, "the server without speculation booted"


def test_a_target_that_is_nowhere_is_said_once_by_each_server(stand_in, tmp_path):
    wrong = PROFILE.replace('path = "builtin:tiny"\n[drafts', 'path = "nowhere/of/mine"\n[drafts')
    (tmp_path / "mine.toml").write_text(wrong)
    run = stand_in.run("-rs", "-k", f"{PAIR_TEST} or asked or acceptance or greedy")
    first = "flags"
    assert run.out.count("nowhere/of/mine: no such model folder") >= 2
    assert {f"not booted: see check {PAIR}", f"not booted: see check {first}"} == reasons(run)
    for server in stand_in.record().servers.values():
        assert len([o for o in server.outcomes.values() if o in ("failed", "error")]) == 1


def test_flags_of_every_server_are_looked_at_before_any_lease(stand_in, tmp_path):
    wrong = PROFILE.replace("[defaults]", '[defaults]\nargs = ["--disable-radix-cach"]')
    (tmp_path / "mine.toml").write_text(wrong)
    run = stand_in.run("-rs", "-k", f"{PAIR_TEST} or asked or greedy")
    first = "flags"
    assert {f"not booted: see check {PAIR}", f"not booted: see check {first}"} == reasons(run)
    record = stand_in.record()
    assert "no option --disable-radix-cach" in record.servers[NONE].messages[first].text
    assert record.first_launch_s is None
