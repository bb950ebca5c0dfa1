"""The radix cache: a server that keeps the draft's keys, one that loses them, one that has none."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import PROFILE, SPEC

CACHED = "cached-prompts"
TURN = "next-turns"
ONLY = ("-k", "cached or next_turn", "--dg-server", "*s3k1d4*")


@pytest.mark.parametrize(
    ("fault", "cached", "turn", "words"),
    [
        ("none", "passed", "passed", "on next turns, 3."),
        (
            "generated_keys_lost",
            "passed",
            "failed",
            ": 4 of 4 next turns take other verify steps when they are found in the radix cache "
            "(first h00); the draft's own keys of the generated tokens are lost",
        ),
        (
            "generated_not_cached",
            "passed",
            "skipped",
            "the prefix was not reused: 4 of 4 next turns found none of the generated tokens in "
            "the cache, which is full or does not keep it (first h00: 23 tokens",
        ),
    ],
)
def test_a_next_turn_finds_what_was_generated(stand_in, fault, cached, turn, words):
    run = stand_in.run(*ONLY, FAKE_SGLANG_FAULT=fault)
    assert run.code == (1 if turn == "failed" else 0), run.text
    server = stand_in.record().servers[SPEC]
    assert (server.outcomes[CACHED], server.outcomes[TURN]) == (cached, turn)
    (verdict,) = (v for v in server.verdicts if v.metric == "next-turns")
    assert words in verdict.reasons[0]
    assert (verdict.value == verdict.limit) == (fault != "generated_keys_lost")


def test_a_text_that_parts_at_a_near_tie_is_told(stand_in):
    run = stand_in.run(*ONLY, FAKE_SGLANG_FAULT="near_tie@12")  # behind the acceptance run
    assert run.code == 0, run.text
    server = stand_in.record().servers[SPEC]
    (verdict,) = (v for v in server.verdicts if v.metric == "cached-prompts")
    assert verdict.status == "pass"
    assert "8 of 8 texts diverge at near ties of the target (below 0.75 nats)" in verdict.reasons[0]
    assert verdict.reasons[0].endswith("0.030 nats apart")


def test_without_a_radix_cache_nothing_is_asked(stand_in, tmp_path):
    (tmp_path / "mine.toml").write_text(
        PROFILE.replace("[defaults]", '[defaults]\nargs = ["--disable-radix-cache"]')
    )
    run = stand_in.run(*ONLY)
    assert run.code == 0, run.text
    verdicts = stand_in.record().servers[SPEC].verdicts
    assert [(v.metric, v.status, v.reasons) for v in verdicts] == [
        (metric, "not gated", ("not asked: the server runs with --disable-radix-cache",))
        for metric in ("cached-prompts", "next-turns")
    ]
