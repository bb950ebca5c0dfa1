"""Train the draft of SmolLM2: ``python -m tests.rebuild.training.build_smollm2 --help``.

TARGET is what ``draftgate models get smollm2`` prints. Minutes on one data-centre GPU; needs torch,
safetensors and transformers, no SGLang. The target answers composed prompts and prompts of its own;
the draft learns from these texts. Half of the time goes to each. OUT always holds the best draft so
far, with ``training.json``, the record of how it was made.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from draftgate.models.location import BUILTIN_FOLDER
from draftgate.models.weights import sha256_of
from torch import Tensor

from tests.rebuild.training.batches import learning_rate_factor
from tests.rebuild.training.chat_texts import generate
from tests.rebuild.training.eagle3 import (
    UNROLLED_STEPS,
    Batch,
    DraftVocabulary,
    Trainer,
    draft_config,
)
from tests.rebuild.training.language_model import LanguageModel, Text
from tests.rebuild.training.network import Draft, Shape, initialize, layer_outputs
from tests.rebuild.training.replay import Replay, replay, right_proposals
from tests.rebuild.training.storage import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    half_precision,
    load_draft,
    read_config,
    save_folder,
)

LAYER_IDS = (1, 14, 26)
"""Outputs of these layers: what every SGLang captures of 30 layers, with these ids and without."""
DRAFT_VOCAB_SIZE = 4096
DRAFT_INTERMEDIATE_SIZE = 640
HELD_OUT = BUILTIN_FOLDER / "prompts" / "chat.jsonl"
RECORD_FILE = "training.json"
GENERATED_AT, TRAINED_AT = 0.45, 0.95
"""When which part ends, as shares of the minutes; what is left is for the held-out prompts."""
VALIDATION_ROWS = 16  # of each text
LEARNING_RATE = 1.5e-3
WARM_UP, DECAY_FROM = 0.03, 0.3  # shares of the training
VALIDATIONS = 6
REPLAY_STEPS = 3
SEED = 0


@dataclass(frozen=True)
class Judged:
    """How a draft alone does on text of the target's own."""

    accuracy: list[float]
    """Of the first, second, ... proposed token, each on its own, over all new tokens."""
    replays: list[Replay]

    @property
    def acceptance_length(self) -> float:
        return _acceptance_length(self.replays)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rebuild.training.build_smollm2")
    parser.add_argument("out", type=Path, help="where the draft goes")
    parser.add_argument("--target", type=Path, required=True, help="folder of SmolLM2")
    parser.add_argument("--minutes", type=float, default=4.0, help="for all (default: 4)")
    parser.add_argument("--rows", type=int, default=4096, help="prompts answered at once")
    parser.add_argument("--new-tokens", type=int, default=256, help="tokens written for each")
    parser.add_argument("--batch-tokens", type=int, default=16384, help="of one training step")
    parser.add_argument("--held-out", type=int, default=90, help="prompts of builtin:chat")
    arguments = parser.parse_args()
    if arguments.rows <= VALIDATION_ROWS:
        parser.error(f"--rows {arguments.rows}: expected more than {VALIDATION_ROWS}")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(SEED)
    begun = time.perf_counter()

    def clock() -> float:
        """The share of the given minutes that has passed."""
        minutes: float = arguments.minutes
        return (time.perf_counter() - begun) / 60 / minutes

    target = LanguageModel(arguments.target, device)
    texts = generate(
        target,
        rows=arguments.rows,
        new_tokens=arguments.new_tokens,
        seed=SEED,
        enough=lambda: clock() > GENERATED_AT,
        say=lambda line: _say(f"{clock():.2f} {line}"),
    )
    written_texts = [text for of_kind in texts.values() for text in of_kind]
    validation = [text.rows(slice(VALIDATION_ROWS)) for text in written_texts]
    training = [text.rows(slice(VALIDATION_ROWS, None)) for text in written_texts]
    written, unseen = _written(training), _written(validation)
    target_config = read_config(arguments.target)
    vocabulary = DraftVocabulary.most_frequent(
        written, DRAFT_VOCAB_SIZE, target_config["vocab_size"]
    )
    config = draft_config(
        target_config,
        LAYER_IDS,
        vocab_size=DRAFT_VOCAB_SIZE,
        intermediate_size=DRAFT_INTERMEDIATE_SIZE,
    )
    record: dict[str, Any] = {
        "target_sha256": sha256_of(arguments.target / WEIGHTS_FILE),
        "trained_on_layers": LAYER_IDS,
        "data": {
            "texts": {kind: sum(len(text.tokens) for text in texts[kind]) for kind in texts},
            "new_tokens_each": arguments.new_tokens,
            "new_tokens": len(written),
            "in_draft_vocabulary": _share(vocabulary.target_ids, written),
            "validation_in_draft_vocabulary": _share(vocabulary.target_ids, unseen),
        },
        "minutes": arguments.minutes,
        "batch_tokens": arguments.batch_tokens,
        "learning_rate": LEARNING_RATE,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": str(torch.__version__),
        "seed": SEED,
    }
    _say(f"{clock():.2f} generated: {json.dumps(record['data'])}")
    folder = Folder(arguments.out, config, vocabulary, record)
    train(target, training, validation, folder, clock, arguments.batch_tokens)
    folder.judge_held_out(target, arguments.held_out, arguments.new_tokens)
    _say(f"{clock():.2f} done: {json.dumps(record)}")
    return 0


@dataclass
class Folder:
    """The draft's folder: the best draft so far and the record."""

    path: Path
    config: dict[str, Any]
    vocabulary: DraftVocabulary
    record: dict[str, Any]
    best: float = 0.0

    def keep(self, draft: Draft, judged: Judged, step: int) -> None:
        """Write the draft, unless an earlier one was better."""
        if judged.acceptance_length <= self.best:
            return
        self.best = judged.acceptance_length
        maps = {"d2t": self.vocabulary.d2t(), "t2d": self.vocabulary.t2d()}
        provenance = {
            "eagle3.trained_on_layers": json.dumps(LAYER_IDS),
            "eagle3.target_sha256": self.record["target_sha256"],
        }
        save_folder(self.path, self.config, {**half_precision(draft), **maps}, provenance)
        self.record["training_steps"] = step
        self.record["validation"] = _as_record(judged)
        self._write_record()

    def judge_held_out(self, target: LanguageModel, count: int, new_tokens: int) -> None:
        """Replay the draft as it was saved on the prompts that it is measured on."""
        prompts = [json.loads(line) for line in HELD_OUT.read_text("utf-8").splitlines()[:count]]
        draft, target_ids = load_draft(self.path)
        draft.to(target.device)
        text = target.continued([target.render(p["messages"]) for p in prompts], new_tokens)
        judged = judge(target, draft, target_ids.to(target.device), [text])
        by_category: defaultdict[str, list[Replay]] = defaultdict(list)
        for prompt, walked in zip(prompts, judged.replays, strict=True):
            by_category[prompt["category"]].append(walked)
        self.record["held_out"] = {
            "prompts_sha256": sha256_of(HELD_OUT),
            "prompts": len(prompts),
            "in_draft_vocabulary": _share(target_ids.cpu(), _written([text])),
            **_as_record(judged),
            "by_category": {
                category: round(_acceptance_length(replays), 3)
                for category, replays in by_category.items()
            },
        }
        self._write_record()

    def _write_record(self) -> None:
        self.record["sha256"] = {
            name: sha256_of(self.path / name) for name in (CONFIG_FILE, WEIGHTS_FILE)
        }
        text = json.dumps(self.record, indent=1) + "\n"
        (self.path / RECORD_FILE).write_text(text, encoding="ascii")


def train(
    target: LanguageModel,
    texts: Sequence[Text],
    validation: Sequence[Text],
    folder: Folder,
    clock: Callable[[], float],
    batch_tokens: int,
) -> None:
    """Train until `TRAINED_AT`, validating now and then and keeping the best draft."""
    target_ids = folder.vocabulary.target_ids.to(target.device)
    draft = Draft(Shape.from_config(folder.config), DRAFT_VOCAB_SIZE, len(LAYER_IDS))
    initialize(draft, torch.Generator().manual_seed(SEED))
    draft.to(target.device)
    with torch.no_grad():  # a head that already knows the target's tokens
        draft.lm_head.weight.copy_(target.head[target_ids])
        draft.norm.weight.copy_(target.final_norm)
    trainer = Trainer(draft)
    begun = clock()
    due = [(1 + i) / VALIDATIONS for i in range(VALIDATIONS)]
    for step, text in enumerate(_batches(texts, batch_tokens), start=1):
        done = min(1.0, (clock() - begun) / max(TRAINED_AT - begun, 1e-9))
        factor = learning_rate_factor(round(1e4 * done), 10000, round(1e4 * WARM_UP), DECAY_FROM)
        losses = trainer.step(make_batch(target, text, target_ids), LEARNING_RATE * factor)
        if step % 100 == 1:
            shown = " ".join(f"{loss:.2f}" for loss in losses.tolist())
            _say(f"{clock():.2f} step {step}: losses {shown}")
        if done >= due[0]:
            judged = judge(target, draft, target_ids, validation)
            folder.keep(draft, judged, step)
            _say(f"{clock():.2f} step {step}: {json.dumps(_as_record(judged))}")
            due = [share for share in due if share > done]
        if not due:
            return


def make_batch(target: LanguageModel, text: Text, target_ids: Tensor) -> Batch:
    """What a draft learns from ``text``: the target's probabilities wherever its choice is a new
    token that the draft can propose."""
    rows = text.tokens.shape[1] - UNROLLED_STEPS - 1
    logits, hidden_states = target(text.tokens)
    known = torch.isin(logits.argmax(-1), target_ids)
    # The choice at a position is the token behind it.
    learned = known & text.is_new().roll(-1, dims=1)
    return Batch(
        aux=layer_outputs(hidden_states, LAYER_IDS)[:, :rows].float(),
        embeddings=target.embed(text.tokens[:, 1 : rows + UNROLLED_STEPS]),
        labels=logits[..., target_ids].float().softmax(-1) * learned[..., None],
    )


def judge(target: LanguageModel, draft: Draft, target_ids: Tensor, texts: Sequence[Text]) -> Judged:
    """Replay the draft on greedy texts, eight rows at a time."""
    replays, matches = [], []
    for part in (part for text in texts for part in text.split(8)):
        kept = part.new_tokens - UNROLLED_STEPS
        right = right_proposals(target, draft, target_ids, LAYER_IDS, part.tokens, UNROLLED_STEPS)
        for row, length in zip(right, part.prompt_lengths.tolist(), strict=True):
            replays.append(replay(row[None], length, kept, REPLAY_STEPS))
            matches.append(row[length - 1 : length + kept - 2])
    accuracy = torch.cat(matches).float().mean(0).tolist()
    return Judged([round(share, 4) for share in accuracy], replays)


def _batches(texts: Sequence[Text], batch_tokens: int) -> Iterator[Text]:
    """Parts of the texts of about so many tokens, for ever, in a random order of their own."""
    rng = random.Random(SEED)
    while True:
        parts = []
        for text in texts:
            order = torch.randperm(len(text.tokens), device=text.tokens.device)
            parts += text.rows(order).split(max(1, batch_tokens // text.tokens.shape[1]))
        rng.shuffle(parts)
        yield from parts


def _written(texts: Sequence[Text]) -> Tensor:
    return torch.cat([text.tokens[text.is_new()] for text in texts]).cpu()


def _share(known: Tensor, tokens: Tensor) -> float:
    """Of ``tokens``, those among ``known``."""
    share: float = torch.isin(tokens, known).float().mean().item()
    return round(share, 4)


def _acceptance_length(replays: Sequence[Replay]) -> float:
    return sum(one.new_tokens for one in replays) / sum(one.verify_steps for one in replays)


def _as_record(judged: Judged) -> dict[str, Any]:
    return {
        "accuracy": judged.accuracy,
        "num_steps": REPLAY_STEPS,
        "acceptance_length": round(judged.acceptance_length, 3),
    }


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
