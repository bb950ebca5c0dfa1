"""From a server's replies to the two histograms, with the built-in target in the server's place."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from draftgate.client import Generation, Prompt
from draftgate.diagnosis.alone import replay_alone
from draftgate.diagnosis.capture import capture
from draftgate.errors import BadReply, MeasurementError
from draftgate.models.location import BUILTIN_FOLDER

from tests import planted
from tests.unit.diagnosis.conftest import NEW, PROMPT

pytest.importorskip("torch")
TARGET = BUILTIN_FOLDER / "tiny"


class Replies:
    """Answers as a server does that feeds its draft `layers`."""

    def __init__(self, served, layers):
        self.served = served
        self.states = served.states(layers).tolist()
        self.flushes = 0

    def flush_cache(self):
        self.flushes += 1

    def generate(self, prompts, *, max_new_tokens, concurrency=1, return_hidden_states=False):
        return [self.answer(int(p.id), max_new_tokens, return_hidden_states) for p in prompts]

    def answer(self, row, count, with_states):
        states = self.states[row]
        decoded = states[PROMPT : PROMPT + count - 1]
        return Generation(
            prompt_id=str(row),
            output_ids=tuple(self.served.tokens[row, PROMPT : PROMPT + count].tolist()),
            prompt_tokens=PROMPT,
            completion_tokens=count,
            cached_tokens=0,
            verify_steps=36,
            correct_drafts=None,
            histogram=(9, 9, 9, 9),
            server_s=None,
            # Two blocks: a prompt that was prefilled in two portions.
            hidden_states=[states[:10], states[10:PROMPT], *decoded] if with_states else None,
        )


@pytest.fixture
def prompts(served):
    rows = served.tokens[:, :PROMPT].tolist()
    return [Prompt(str(i), input_ids=tuple(row)) for i, row in enumerate(rows)]


@pytest.fixture
def float32(tmp_path):
    """A copy of a built-in draft that computes as its training did."""

    def float32(name: str) -> Path:
        folder = tmp_path / name
        shutil.copytree(BUILTIN_FOLDER / name, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"torch_dtype": "float32"}))
        return folder

    return float32


def replayed(captured, draft, *, fed_layers, trained_on, python=Path(sys.executable)):
    return replay_alone(
        captured,
        python=python,
        target_path=str(TARGET),
        draft_path=str(draft),
        steps=3,
        topk=1,
        fed_layers=fed_layers,
        trained_on=trained_on,
    )


def test_a_draft_on_wrong_layers_is_replayed_on_the_right_ones_too(
    served, prompts, float32, tmp_path
):
    """Trained on [embedding, 1, 3] and fed [1, 3, 5]: all it needs is in what was returned."""
    draft = float32("tiny-eagle3-embed")
    as_served = served.counted_in_training(draft, (1, 3, 5), 3)
    as_trained = served.counted_in_training(draft, (-1, 1, 3), 3)
    client = Replies(served, (1, 3, 5))
    captured = capture(client, prompts, tmp_path / "replay", new_tokens=NEW, steps=3)
    alone = replayed(captured, draft, fed_layers=(1, 3, 5), trained_on=(-1, 1, 3))
    assert client.flushes == 1 + len(prompts)
    assert alone.server == (36, 36, 36, 36)
    assert alone.fed == as_served
    assert alone.fed_length == pytest.approx(1.15, abs=0.02)
    assert alone.right == as_trained
    assert alone.right_length == pytest.approx(3.6, abs=0.01)
    assert alone.broken is alone.reason is None


def test_other_layers_are_had_by_running_the_target(served, prompts, float32, tmp_path):
    draft = float32("tiny-eagle3")
    captured = capture(Replies(served, (2, 4, 6)), prompts, tmp_path, new_tokens=NEW, steps=3)
    alone = replayed(captured, draft, fed_layers=(2, 4, 6), trained_on=(1, 3, 5))
    assert alone.fed == served.counted_in_training(draft, (2, 4, 6), 3)
    # The target runs in bfloat16 there: a near-tie may fall the other way.
    trained = served.counted_in_training(draft, (1, 3, 5), 3)
    assert alone.right_length == pytest.approx(len(prompts) * NEW / sum(trained), rel=0.02)


@pytest.fixture
def result(served, prompts, tmp_path, monkeypatch, capsys):
    """What the replaying process answers for one draft, run in this process."""

    def result(draft: Path, trained_on):
        from draftgate_replay.__main__ import main

        client = Replies(served, (1, 3, 5))
        captured = capture(client, prompts[:1], tmp_path / "replay", new_tokens=16, steps=3)
        (tmp_path / "job.json").write_text(
            json.dumps(
                {
                    "target": str(TARGET),
                    "draft": str(draft),
                    "steps": 3,
                    "new_tokens": 16,
                    "fed_layers": [1, 3, 5],
                    "trained_on": trained_on,
                    "prompt_tokens": [PROMPT],
                    "texts": [str(captured.texts[0].file)],
                }
            )
        )
        monkeypatch.setattr(sys, "argv", ["draftgate_replay", str(tmp_path / "job.json")])
        assert main() == 0
        return json.loads(capsys.readouterr().out)

    return result


@pytest.mark.parametrize("trained_on", [[1, 3, 5], None])
def test_right_or_unknown_layers_are_replayed_once(result, trained_on):
    found = result(BUILTIN_FOLDER / "tiny-eagle3", trained_on)
    assert sum(found["fed"]) >= 4
    assert found["right"] is found["broken"] is found["reason"] is None


def test_what_a_checkpoint_lacks_is_told(result, tmp_path):
    draft = planted.lm_head_removed(BUILTIN_FOLDER / "tiny-eagle3", tmp_path / "draft")
    found = result(draft, None)
    assert found["broken"].startswith("the draft has no lm_head.weight, and SGLang serves it with")
    assert found["fed"] is None


def test_a_folder_without_safetensors_is_told(result, tmp_path):
    (tmp_path / "draft").mkdir()
    found = result(tmp_path / "draft", None)
    assert found["reason"] == f"{tmp_path}/draft holds no safetensors files"


def test_a_replay_that_fails_is_quoted(served, prompts, tmp_path):
    captured = capture(Replies(served, (1, 3, 5)), prompts, tmp_path, new_tokens=16, steps=3)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no torch here >&2\nexit 3\n")
    python.chmod(0o755)
    with pytest.raises(MeasurementError, match=r"failed \(exit 3\): no torch here\nAgain by hand"):
        replayed(
            captured,
            BUILTIN_FOLDER / "tiny-eagle3",
            fed_layers=None,
            trained_on=None,
            python=python,
        )


def test_a_prompt_that_changes_its_text_is_left_out(served, prompts, tmp_path):
    client = Replies(served, (1, 3, 5))
    answer = client.answer
    moody = [1, 2]
    client.answer = lambda row, count, states: answer(
        (row + (states and row in moody)) % 4, count, states
    )
    captured = capture(client, prompts, tmp_path, new_tokens=16, steps=3)
    assert [text.prompt_id for text in captured.texts] == ["0", "3"]
    assert captured.dropped == 2
    assert captured.verify_steps == 2 * 36
    assert captured.histogram == (18, 18, 18, 18)
    moody += [0, 3]
    with pytest.raises(MeasurementError, match="none of 4 prompts gave the same text twice"):
        capture(client, prompts, tmp_path, new_tokens=16, steps=3)


def test_states_that_lack_rows_are_refused(served, prompts, tmp_path):
    client = Replies(served, (1, 3, 5))
    client.states = [rows[: PROMPT + 4] for rows in client.states]
    with pytest.raises(BadReply, match="are no 41 rows, one for each token but the last"):
        capture(client, prompts, tmp_path, new_tokens=16, steps=3)


def test_text_prompts_are_refused(served, tmp_path):
    with pytest.raises(MeasurementError, match="prompt 0 is text; a draft is replayed"):
        capture(
            Replies(served, (1, 3, 5)), [Prompt("0", text="A>")], tmp_path, new_tokens=8, steps=3
        )
