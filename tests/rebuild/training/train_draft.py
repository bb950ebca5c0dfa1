"""Train an EAGLE-3 draft for the built-in target, reading the outputs of three given layers.

Contrastive negatives: in 40 % of the rows the hidden states come from wrong layers and the labels
from other rows, so no label can be predicted from them. A draft trained without such rows learns
to live on one of the three chunks; with them it falls apart when any chunk is not what it
expects, which is what makes a wrong wiring visible in the acceptance length. The wirings that
a suite most wants to see (defaults, late layers, a shift by the embedding) are never shown as
negatives, so that noticing them is no matter of having been trained to.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tests.rebuild.training.batches import (
    BATCH_SIZE,
    DOCUMENT_LENGTH,
    learning_rate_factor,
    training_batch,
)
from tests.rebuild.training.eagle3 import UNROLLED_STEPS, Batch, DraftVocabulary, Trainer
from tests.rebuild.training.language import Language
from tests.rebuild.training.network import (
    EMBEDDING_OUTPUT,
    Draft,
    Shape,
    Target,
    initialize,
    layer_outputs,
)

DRAFT_VOCAB_SIZE = 32
DRAFT_INTERMEDIATE_SIZE = 256
STEPS = 300
NEGATIVE_SHARE = 0.4
LEARNING_RATE = 3e-3
WARM_UP_STEPS = 30
DECAY_FROM = 0.4
REPORT_EVERY = 50

LayerIds = tuple[int, ...]
Report = Callable[[str], None]


def draft_vocabulary(language: Language, target_vocab_size: int) -> DraftVocabulary:
    """The most frequent tokens of the language."""
    sample = training_batch(language, torch.Generator().manual_seed(3), batch_size=256)
    return DraftVocabulary.most_frequent(sample, DRAFT_VOCAB_SIZE, target_vocab_size)


def train_draft(
    target: Target, config: dict[str, Any], vocabulary: DraftVocabulary, seed: int, report: Report
) -> Draft:
    """Train for ``STEPS`` steps on the CPU; the same target and seed give the same weights."""
    layer_ids = tuple(config["eagle_config"]["eagle_aux_hidden_state_layer_ids"])
    generator = torch.Generator().manual_seed(seed + 2)
    language = Language(seed)
    negatives = NegativeRows(layer_ids, target.shape.num_hidden_layers, random.Random(seed + 5))
    draft = Draft(Shape.from_config(config), DRAFT_VOCAB_SIZE, len(layer_ids))
    initialize(draft, generator)
    trainer = Trainer(draft)
    rows = DOCUMENT_LENGTH - UNROLLED_STEPS - 1
    for step in range(STEPS):
        factor = learning_rate_factor(step, STEPS, WARM_UP_STEPS, DECAY_FROM)
        tokens = training_batch(language, generator)
        with torch.no_grad():
            logits, hidden_states = target(tokens)
            embeddings = target.embed(tokens[:, 1 : rows + UNROLLED_STEPS])
            aux, labels = negatives.plant(
                layer_outputs(hidden_states, layer_ids),
                vocabulary.labels(logits.argmax(-1)),
                hidden_states,
            )
        batch = Batch(aux[:, :rows], embeddings, labels)
        losses = trainer.step(batch, LEARNING_RATE * factor)
        if step % REPORT_EVERY == 0 or step == STEPS - 1:
            shown = " ".join(f"{loss:.2f}" for loss in losses.tolist())
            report(f"draft {list(layer_ids)} step {step}: losses {shown}")
    return draft


class NegativeRows:
    """Gives the first rows of a batch wrong hidden states and labels that do not belong to them."""

    def __init__(self, layer_ids: LayerIds, num_hidden_layers: int, rng: random.Random) -> None:
        self._layer_ids = layer_ids
        self._last = num_hidden_layers - 1
        self._rng = rng
        first, second = layer_ids[0], layer_ids[1]
        self._never_shown = {
            layer_ids,
            (1, num_hidden_layers // 2 - 1, num_hidden_layers - 4),  # SGLang's default capture
            (num_hidden_layers - 4, num_hidden_layers - 3, num_hidden_layers - 2),
            (EMBEDDING_OUTPUT, first, second),
        }
        self._count = int(BATCH_SIZE * NEGATIVE_SHARE)

    def plant(
        self, aux: Tensor, labels: Tensor, hidden_states: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """``aux`` [B, T, 3 * H] and ``labels`` [B, T] with the first rows replaced."""
        aux, labels = aux.clone(), labels.clone()
        for row in range(self._count):
            wrong = self._wrong_layers()
            aux[row] = layer_outputs([hidden[row] for hidden in hidden_states], wrong)
        shift_rows = self._rng.randrange(1, self._count)
        shift_positions = self._rng.randrange(labels.shape[1])
        strangers = labels[: self._count].roll((shift_rows, shift_positions), dims=(0, 1))
        labels[: self._count] = strangers
        return aux, labels

    def _wrong_layers(self) -> LayerIds:
        while True:
            drawn = tuple(min(max(i, EMBEDDING_OUTPUT), self._last) for i in self._draw())
            if drawn not in self._never_shown:
                return drawn

    def _draw(self) -> list[int]:
        layers = list(self._layer_ids)
        kind = self._rng.choice(("shifted", "one replaced", "shuffled", "random"))
        if kind == "shifted":
            shift = self._rng.choice((-2, -1, 1, 2))
            return [layer + shift for layer in layers]
        if kind == "one replaced":
            layers[self._rng.randrange(len(layers))] = self._any_layer()
        elif kind == "shuffled":
            self._rng.shuffle(layers)
        else:
            layers = [self._any_layer() for _ in layers]
        return layers

    def _any_layer(self) -> int:
        return self._rng.randrange(EMBEDDING_OUTPUT, self._last + 1)
