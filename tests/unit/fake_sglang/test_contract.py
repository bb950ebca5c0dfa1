"""The stand-in answers as real servers did: same status, content type, keys and kinds of values."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.fake_sglang import record as recorder
from tests.fake_sglang.interpreter import HERE
from tests.fake_sglang.process import stand_in

RECORDED = sorted(HERE.glob("recorded/*/*.json"))
LIMIT_S = 30.0


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """One stand-in for each recorded version."""
    with ExitStack() as stack:
        yield {
            version: stack.enter_context(stand_in(tmp_path_factory.mktemp(version), version))
            for version in sorted({path.parent.name for path in RECORDED})
        }


def differences(ours: Any, theirs: Any, where: str = "") -> list[str]:
    """Where two answers differ in keys, and in kinds of values neither of which is null."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = [f"{where}.{key}: only one has it" for key in sorted(set(ours) ^ set(theirs))]
        for key in sorted(set(ours) & set(theirs)):
            found += differences(ours[key], theirs[key], f"{where}.{key}")
        return found
    if isinstance(ours, list) and isinstance(theirs, list) and ours and theirs:
        return differences(ours[0], theirs[0], f"{where}[0]")
    if ours is None or theirs is None:
        return []
    return [] if _kind(ours) == _kind(theirs) else [f"{where}: {ours!r}, recorded {theirs!r}"]


def _kind(value: Any) -> str:
    """Whole and broken numbers are of one kind: an average may come out whole."""
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else type(value).__name__


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_an_answer_has_the_shape_of_the_recorded_one(urls: dict[str, str], path: Path) -> None:
    theirs = json.loads(path.read_text())
    ours = recorder.record(urls[path.parent.name], path.stem)
    assert (ours["status"], ours["content_type"]) == (theirs["status"], theirs["content_type"])
    if "families" in theirs:  # a real page has many more
        assert ours["families"]
        assert ours["families"].items() <= theirs["families"].items()
    elif "events" in theirs:
        assert ours["events"][-2:] == theirs["events"][-2:] == ["data: [DONE]", ""]
        for place in (0, 1, -3):
            assert differences(ours["events"][place], theirs["events"][place]) == []
    else:
        assert differences(ours.get("json"), theirs.get("json")) == []
        assert ours.get("text") == theirs.get("text")


def test_a_difference_of_keys_or_kinds_is_seen() -> None:
    assert differences({"a": 1, "b": None}, {"a": 1.5, "b": "x"}) == []
    assert differences({"a": 1}, {"a": "1"}) == [".a: 1, recorded '1'"]
    assert differences({"m": {"a": 1}}, {"m": {}}) == [".m.a: only one has it"]
    assert differences([{"a": True}], [{"a": 1}]) == ["[0].a: True, recorded 1"]


def test_every_request_is_recorded_for_the_newest_version() -> None:
    newest = {path.stem for path in RECORDED if path.parent.name == "0.5.23"}
    assert newest == set(recorder.REQUESTS)


def test_hidden_states_are_one_block_and_one_row_a_token(urls: dict[str, str]) -> None:
    meta = recorder.record(urls["0.5.23"], "generate_hidden")["json"]["meta_info"]
    block, *rows = meta["hidden_states"]
    assert [len(row) for row in block] == [192] * 8
    assert [len(row) for row in rows] == [192] * (meta["completion_tokens"] - 1)
    theirs = json.loads((HERE / "recorded/0.5.23/generate_hidden.json").read_text())
    real = theirs["json"]["meta_info"]["hidden_states"]
    assert isinstance(real[0][0], list)
    assert len(real) == theirs["json"]["meta_info"]["completion_tokens"]


def test_a_stream_grows_by_verify_steps_and_counts_tokens_not_events(urls: dict[str, str]) -> None:
    *events, _, _ = recorder.record(urls["0.5.23"], "generate_stream")["events"]
    lengths = [len(event["output_ids"]) for event in events]
    assert lengths == [event["meta_info"]["completion_tokens"] for event in events]
    assert lengths == sorted(lengths)
    assert lengths[-1] == 16
    assert len(events) < 16
    assert events[-1]["meta_info"]["spec_verify_ct"] == len(events) - 1


def test_a_flush_makes_the_cache_cold(urls: dict[str, str]) -> None:
    def cached() -> int:
        answer = recorder.record(urls["0.5.23"], "generate")
        return int(answer["json"]["meta_info"]["cached_tokens"])

    cached()
    assert cached() == len(recorder.PROMPT) - 2
    recorder.record(urls["0.5.23"], "flush_cache")
    assert cached() == 0


def test_events_are_framed_as_server_sent_events(urls: dict[str, str]) -> None:
    address = urls["0.5.23"].removeprefix("http://")
    connection = http.client.HTTPConnection(address, timeout=LIMIT_S)
    body = json.dumps({**recorder.GENERATE, "stream": True})
    connection.request("POST", "/generate", body)
    answer = connection.getresponse()
    assert answer.getheader("Transfer-Encoding") == "chunked"
    raw = answer.read()
    connection.close()
    assert raw.startswith(b"data: {")
    assert raw.endswith(b"}\n\ndata: [DONE]\n\n")


def test_a_stream_can_be_reset_in_the_middle(tmp_path: Path) -> None:
    with (
        stand_in(tmp_path, "0.5.23", "reset") as url,
        pytest.raises(ConnectionResetError),
    ):
        recorder.record(url, "generate_stream")
