"""Asking again and asking on, on the stand-in of SGLang."""

from __future__ import annotations

import hashlib

import pytest
from draftgate.client import Client, Prompt
from draftgate.measure.acceptance import measure_acceptance
from draftgate.measure.reuse import measure_cached, measure_next_turns

from tests.fake_sglang.process import stand_in
from tests.fake_sglang.sglang.scheduler import text_of

PROMPTS = [Prompt(f"p{n}", tuple(range(20 * n + 1, 20 * n + 11 + n))) for n in range(5)]
"""Of 10 to 14 tokens, no two of which begin alike."""
NUM_STEPS = 3


@pytest.fixture
def serve(tmp_path):
    """A client of a stand-in of its own."""
    running = []

    def start(fault: str = "none") -> Client:
        server = stand_in(tmp_path, fault=fault)
        running.append(server)
        url = server.__enter__()
        return Client(url, check_alive=lambda: None, speculating=True, timeout_s=30)

    yield start
    for server in running:
        server.__exit__(None, None, None)


def next_turns(client, prompts=PROMPTS, context_length=None, page_size=1):
    return measure_next_turns(
        client,
        prompts,
        context_length=context_length,
        page_size=page_size,
        num_steps=NUM_STEPS,
    )


def said(prompt: list[int], count: int) -> str:
    """The hash of what the stand-in says behind `prompt`."""
    return hashlib.sha256(repr(tuple(text_of(prompt, count))).encode()).hexdigest()


@pytest.mark.parametrize(
    ("context_length", "page_size", "tokens"), [(None, 1, 64), (1024, 8, 64), (200, 1, 53)]
)
def test_a_next_turn_goes_on_behind_the_answer(serve, context_length, page_size, tokens):
    found = next_turns(serve(), context_length=context_length, page_size=page_size)
    assert (found.least, found.divergences, found.reason) == ((10, 11, 12, 13), (), None)
    answer = tokens + page_size
    assert [p.cached_tokens for p in found.cold] == [0] * 4
    # All but the last token of the answer is in the cache, by pairs of tokens.
    assert [p.cached_tokens for p in found.warm] == [10 + n + answer - 2 for n in range(4)]
    for place, (cold, warm) in enumerate(zip(found.cold, found.warm, strict=True)):
        prompt = list(PROMPTS[place].input_ids)
        turn = prompt + text_of(prompt, answer) + list(PROMPTS[place + 1].input_ids)
        assert warm.id == cold.id == f"p{place}"
        assert warm.output_sha256 == cold.output_sha256 == said(turn, tokens)
        assert warm.tokens == cold.tokens == tokens
        assert warm.verify_steps == cold.verify_steps < tokens - 1


def test_of_a_long_prompt_only_the_beginning_is_the_next_turn(serve):
    long = Prompt("q", tuple(range(100, 140)))
    found = next_turns(serve(), [PROMPTS[0], long])
    prompt = list(PROMPTS[0].input_ids)
    turn = prompt + text_of(prompt, 65) + list(range(100, 116))
    assert found.cold[0].output_sha256 == said(turn, 64)
    assert found.least == (10, 40)  # behind the last prompt stands the first one


def test_lost_keys_of_generated_tokens_cost_steps(serve):
    found = next_turns(serve("generated_keys_lost"))
    assert [p.verify_steps for p in found.warm] == [63] * 4
    assert all(p.verify_steps < 40 for p in found.cold)


def test_a_cache_of_prompts_alone_reaches_no_generated_token(serve):
    found = next_turns(serve("generated_not_cached"))
    assert [p.cached_tokens for p in found.warm] == [9, 10, 11, 12]


@pytest.mark.parametrize(
    ("prompts", "context_length", "words"),
    [
        ([*PROMPTS, Prompt("t", text="Once")], None, "prompts of the profile are text"),
        (PROMPTS, 102, "a context length of 102 holds no next turn of a prompt of 13 tokens"),
    ],
)
def test_what_cannot_be_asked_on_is_said_without_a_request(prompts, context_length, words):
    nowhere = Client("http://127.0.0.1:9", check_alive=lambda: None, speculating=True)
    found = next_turns(nowhere, prompts, context_length)
    assert words in found.reason
    assert found.warm == found.cold == ()


def test_prompts_are_asked_again(serve):
    client = serve("near_tie@10")  # the acceptance run and what fills the cache are spared
    sample, texts = measure_acceptance(client, PROMPTS, max_new_tokens=32)
    found = measure_cached(client, PROMPTS, sample, texts, page_size=1, num_steps=NUM_STEPS)
    assert found.cold == sample.prompts
    assert found.least == (0,) * 5
    assert [p.cached_tokens for p in found.warm] == [8, 9, 10, 11, 12]
    assert [p.verify_steps for p in found.warm] == [p.verify_steps for p in found.cold]
    assert [(one.prompt_id, one.at) for one in found.divergences] == [
        (f"p{n}", 31) for n in range(5)
    ]
    assert [one.gap for one in found.divergences] == pytest.approx([0.03] * 5)
    for one in found.divergences:
        assert (one.reference, one.candidate) == (
            texts[one.prompt_id][31],
            texts[one.prompt_id][31] ^ 1,
        )


def test_prompts_that_fill_no_page_are_not_asked_again(serve):
    client = serve("")
    sample, texts = measure_acceptance(client, PROMPTS, max_new_tokens=32)
    lengths = [len(prompt.input_ids) for prompt in PROMPTS]
    page_size = max(lengths) - 1
    some = measure_cached(client, PROMPTS, sample, texts, page_size=page_size, num_steps=NUM_STEPS)
    assert [p.id for p in some.warm] == [p.id for p in some.cold] == ["p4"]
    none = measure_cached(
        client, PROMPTS, sample, texts, page_size=page_size + 1, num_steps=NUM_STEPS
    )
    assert none.reason == f"no prompt fills a page of the radix cache ({page_size + 1} tokens)"
