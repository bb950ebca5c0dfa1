"""The prompts of a chat model: what is held out is never trained on."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from draftgate.measure.prompts import BUILTIN

from tests.rebuild.training.chat_prompts import PROMPTS, Messages, training_prompts

CATEGORIES = [
    "writing",
    "roleplay",
    "reasoning",
    "math",
    "coding",
    "extraction",
    "stem",
    "humanities",
    "summary",
    "retrieval",
]
RUN = 8
"""So many words in the same order are no chance."""


def rows(name: str) -> list[dict]:
    return [json.loads(line) for line in (BUILTIN / f"{name}.jsonl").read_text().splitlines()]


def runs(messages: Messages) -> set[tuple[str, ...]]:
    words = [re.findall(r"\w+", message["content"].lower()) for message in messages]
    return {tuple(w[at : at + RUN]) for w in words for at in range(len(w) - RUN + 1)}


@pytest.fixture(scope="module")
def trained_on() -> list[Messages]:
    return training_prompts(PROMPTS, 0)


def test_held_out_prompts_cover_every_category_from_the_first_ten_on() -> None:
    found = rows("chat")
    assert [row["category"] for row in found] == CATEGORIES * 9
    assert [row["id"] for row in found[:2] + found[-1:]] == [
        "writing-1",
        "roleplay-1",
        "retrieval-9",
    ]
    contents = [row["messages"][-1]["content"] for row in found]
    assert len(set(contents)) == 90


def test_conversations_end_with_the_user_and_some_have_two_turns() -> None:
    roles = Counter(tuple(m["role"] for m in row["messages"]) for row in rows("chat"))
    assert roles == {("user",): 78, ("user", "assistant", "user"): 12}


def test_training_prompts_are_different_and_repeat(trained_on: list[Messages]) -> None:
    assert len({json.dumps(messages) for messages in trained_on}) == PROMPTS
    assert training_prompts(50, 0) == training_prompts(50, 0) != training_prompts(50, 1)
    roles = {tuple(message["role"] for message in messages) for messages in trained_on}
    assert roles == {("user",), ("user", "assistant", "user")}


def test_every_slot_of_a_training_prompt_is_filled(trained_on: list[Messages]) -> None:
    contents = [message["content"] for messages in trained_on for message in messages]
    assert not [content for content in contents if re.search(r"[{}|¶]|\S\n\S|  ", content)]


@pytest.mark.parametrize("held_out", ["chat", "english"])
def test_no_held_out_prompt_is_trained_on(trained_on: list[Messages], held_out: str) -> None:
    known = set().union(*map(runs, trained_on))
    contents = {message["content"].lower() for messages in trained_on for message in messages}
    for row in rows(held_out):
        assert not known & runs(row["messages"]), row["id"]
        assert row["messages"][-1]["content"].lower() not in contents
