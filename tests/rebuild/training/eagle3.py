"""What the drafts of both pairs share: their config, their vocabulary and one step of training.

Training-time test: the draft runs five steps ahead from every position, fed with its own hidden
states as it is while serving, and the losses of the steps weigh 0.8 ** step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.rebuild.training.network import Draft

UNROLLED_STEPS = 5
STEP_DISCOUNT = 0.8
NO_LABEL: Final = -100  # the index that cross_entropy ignores
INHERITED = (
    "model_type",
    "vocab_size",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rms_norm_eps",
    "hidden_act",
    "tie_word_embeddings",
    "torch_dtype",
    "rope_theta",
)


def draft_config(
    target_config: dict[str, Any],
    layer_ids: Sequence[int],
    *,
    vocab_size: int,
    intermediate_size: int,
) -> dict[str, Any]:
    """The config.json of a draft for that target, in the form that SGLang reads."""
    own_head = {**target_config, "tie_word_embeddings": False}
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        **{name: own_head[name] for name in INHERITED},
        "intermediate_size": intermediate_size,
        "num_hidden_layers": 1,
        "draft_vocab_size": vocab_size,
        "eagle_config": {
            "use_aux_hidden_state": True,
            "eagle_aux_hidden_state_layer_ids": list(layer_ids),
        },
    }


@dataclass(frozen=True)
class DraftVocabulary:
    """The target tokens that the draft can propose, in ascending order."""

    target_ids: Tensor  # [draft vocabulary]
    target_vocab_size: int

    @classmethod
    def most_frequent(cls, tokens: Tensor, size: int, target_vocab_size: int) -> DraftVocabulary:
        """The ``size`` tokens that occur most often in ``tokens``."""
        counts = torch.bincount(tokens.flatten(), minlength=target_vocab_size)
        return cls(counts.topk(size).indices.sort().values, target_vocab_size)

    def d2t(self) -> Tensor:
        """int64 [draft vocabulary]: what to add to a draft id to get the target's id."""
        return self.target_ids - torch.arange(len(self.target_ids))

    def t2d(self) -> Tensor:
        """bool [target vocabulary]: whether the draft knows the token."""
        known = torch.zeros(self.target_vocab_size, dtype=torch.bool)
        known[self.target_ids] = True
        return known

    def labels(self, target_tokens: Tensor) -> Tensor:
        """Draft ids of target tokens, ``NO_LABEL`` where the draft has none."""
        draft_ids = torch.full((self.target_vocab_size,), NO_LABEL)
        draft_ids[self.target_ids] = torch.arange(len(self.target_ids))
        return draft_ids[target_tokens]


@dataclass(frozen=True)
class Batch:
    """B rows of a draft's input, and what it shall predict.

    ``aux`` [B, T, 3 * H] belong to positions 0 .. T-1 and ``embeddings`` [B, T + steps - 1, H] to
    the tokens one position later. ``labels`` are the target's choices at positions 0 .. T + steps
    as draft ids [B, T + steps + 1], or its probabilities of the draft's tokens with a further
    dimension, all zero where there is nothing to learn.
    """

    aux: Tensor
    embeddings: Tensor
    labels: Tensor


class Trainer:
    """AdamW on one draft."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._adam = torch.optim.AdamW(draft.parameters(), betas=(0.9, 0.95), weight_decay=0.01)

    def step(self, batch: Batch, learning_rate: float) -> Tensor:
        """Learn from one batch; the losses of the unrolled steps before it was learned."""
        self._adam.param_groups[0]["lr"] = learning_rate
        losses = _step_losses(self.draft(batch.aux, batch.embeddings, UNROLLED_STEPS), batch.labels)
        weights = STEP_DISCOUNT ** torch.arange(UNROLLED_STEPS, device=losses.device)
        (losses * weights).sum().backward()
        nn.utils.clip_grad_norm_(self.draft.parameters(), 1.0)
        self._adam.step()
        self._adam.zero_grad()
        return losses.detach()


def _step_losses(step_logits: Sequence[Tensor], labels: Tensor) -> Tensor:
    """Cross-entropy of every step, [steps].

    Row t of step k predicts the token at t+2+k, which is the target's choice at position t+1+k.
    """
    rows = step_logits[0].shape[1]
    losses = [
        F.cross_entropy(
            logits.flatten(0, 1),
            labels[:, 1 + step : 1 + step + rows].flatten(0, 1),
            ignore_index=NO_LABEL,
        )
        for step, logits in enumerate(step_logits)
    ]
    return torch.stack(losses)
