from __future__ import annotations

import json
import sys

import pytest
from draftgate.catalog.select import load_profiles
from draftgate.client import Prompt
from draftgate.errors import ProfileError
from draftgate.measure.prompts import (
    load_prompts,
    prompt_file,
    prompt_set_sha256,
    require_categories,
    shared_prefixes,
)


@pytest.fixture
def write(tmp_path):
    def write(*rows):
        file = tmp_path / "prompts.jsonl"
        file.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows))
        return file

    return write


def load(file, count):
    return load_prompts(file, count, python=sys.executable, target="unused")


def test_ids_and_text(write):
    file = write({"id": "a", "input_ids": [1, 2]}, "", {"id": "b", "text": "hi", "category": "x"})
    assert load(file, 2) == [Prompt("a", (1, 2)), Prompt("b", text="hi", category="x")]
    assert load(file, 1) == [Prompt("a", (1, 2))]


@pytest.fixture
def chats(write, tmp_path):
    """A file of two chats, and an interpreter that renders `said` of them and notes each run."""

    def chats(said):
        python = tmp_path / "python"
        python.write_text(f'#!/bin/sh\necho run >> {tmp_path / "runs"}\necho "{said}"\n')
        python.chmod(0o755)
        rows = [{"id": id_, "messages": [{"role": "user", "content": id_}]} for id_ in "ab"]
        return write(*rows), python

    return chats


def test_chats_are_rendered_once_for_all_servers(chats, tmp_path):
    file, python = chats("[[1, 2], [3]]")
    runs = tmp_path / "runs"
    for _ in range(2):
        loaded = load_prompts(file, 2, python=python, target=tmp_path)
        assert loaded == [Prompt("a", (1, 2)), Prompt("b", (3,))]
    assert runs.read_text() == "run\n"
    load_prompts(file, 2, python=python, target=tmp_path / "another")
    assert runs.read_text() == "run\nrun\n"


def test_empty_messages_are_none(write):
    file = write({"id": "a", "messages": [], "text": "hi"})
    assert load(file, 1) == [Prompt("a", text="hi")]


@pytest.mark.parametrize("rendered", ["[[1]]", "[[1], []]"])
def test_a_chat_that_comes_back_empty_or_not_at_all(chats, tmp_path, rendered):
    file, python = chats(rendered)
    with pytest.raises(ProfileError, match="some empty or missing; look at its chat template"):
        load_prompts(file, 2, python=python, target=tmp_path)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("{", r"prompts\.jsonl:1: not JSON"),
        ("[1]", r'prompts\.jsonl:1: expected an object with a string "id"'),
        ({"id": 3, "text": "x"}, 'string "id"'),
        ({"id": "a"}, "exactly one of input_ids, text, messages; found none"),
        ({"id": "a", "messages": []}, "found an empty messages"),
        ({"id": "a", "messages": ["hi"]}, "a message needs role and content, got 'hi'"),
        ({"id": "a", "messages": [{"role": "user"}]}, "a message needs role and content"),
        ({"id": "a", "text": "x", "input_ids": [1]}, "found input_ids, text"),
        ({"id": "a", "input_ids": ["x"]}, "list of token ids"),
        ({"id": "a", "text": 3}, "text must be a str, got 3"),
        ({"id": "a", "messages": "hello"}, "messages must be a list, got 'hello'"),
        ({"id": "a", "text": "x", "category": ["x"]}, r"category must be a str, got \['x'\]"),
        ({"id": "a", "text": "x", "category": 3}, "category must be a str, got 3"),
        ({"id": "a", "text": "x", "category": []}, r"category must be a str, got \[\]"),
    ],
)
def test_a_line_that_is_no_prompt(write, row, words):
    with pytest.raises(ProfileError, match=words):
        load(write(row), 1)


def test_too_few_and_twice_the_same(write):
    file = write({"id": "a", "text": "x"}, {"id": "a", "text": "y"})
    with pytest.raises(ProfileError, match=r"2 prompts, and the profile asks for .* = 3"):
        load(file, 3)
    with pytest.raises(ProfileError, match="id 'a' stands twice"):
        load(file, 2)


def test_files(tmp_path):
    (tmp_path / "own.jsonl").touch()
    assert prompt_file("own.jsonl", tmp_path) == tmp_path / "own.jsonl"
    assert prompt_file("builtin:english", tmp_path).is_file()
    with pytest.raises(ProfileError, match="no such prompt set; there is .*builtin:english"):
        prompt_file("builtin:englich", tmp_path)
    with pytest.raises(ProfileError, match="no file .*missing.jsonl"):
        prompt_file("missing.jsonl", tmp_path)


def test_a_floor_of_a_category_needs_prompts_of_it():
    spec = load_profiles([])["smollm2"].servers[-1]
    prompts = [Prompt(id=name, input_ids=(1,), category=name) for name, _ in spec.category_floors]
    require_categories(spec, prompts)
    with pytest.raises(
        ProfileError,
        match=r": category_floors\.coding: none of the 2 prompts of builtin:chat is "
        r"of that category; there are math, reasoning\. Correct the name",
    ):
        require_categories(spec, [p for p in prompts if p.category in ("reasoning", "math")])


def test_the_hash_is_of_what_is_sent():
    one = [Prompt("a", (1, 2, 3))]
    assert prompt_set_sha256(one) == prompt_set_sha256([Prompt("a", (1, 2, 3), category="x")])
    assert prompt_set_sha256(one) != prompt_set_sha256([Prompt("a", (1, 1, 2, 3))])


def test_shared_prefixes():
    prompts = [
        Prompt("a", (9, 9, 1, 2)),
        Prompt("b", (5,)),
        Prompt("c", (9, 9, 1, 3)),
        Prompt("d", (9, 8)),
    ]
    assert shared_prefixes(prompts) == {"a": 3, "b": 0, "c": 3, "d": 1}
