"""Acceptance of a draft alone: a greedy replay in plain PyTorch, without any engine.

Replays what a server does at topk 1 over the same documents: propose ``steps`` tokens, keep
those before the first that differs from the target's choice, take the target's own token, go on
behind it. At temperature 0 a server's histogram can be compared with this one count by count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tests.rebuild.training.network import Draft, Target, layer_outputs


class ReadableTarget(Protocol):
    """What is needed of a target, however it is run."""

    def __call__(self, tokens: Tensor, /) -> tuple[Tensor, Sequence[Tensor]]:
        """Logits and hidden states, as `Target.forward` returns them."""
        ...

    def embed(self, tokens: Tensor, /) -> Tensor: ...


@dataclass(frozen=True)
class Replay:
    """Counts over all documents. ``histogram[k]``: verify steps that accepted k draft tokens."""

    new_tokens: int
    histogram: tuple[int, ...]

    @property
    def verify_steps(self) -> int:
        return sum(self.histogram)

    @property
    def acceptance_length(self) -> float:
        """New tokens per verify step, the bonus token counted: 1.0 means nothing was accepted.

        A server's ``completion_tokens / spec_verify_ct`` (sglang 0.5.23).
        """
        return self.new_tokens / self.verify_steps


@torch.no_grad()
def continue_greedily(target: Target, prompts: Tensor, new_tokens: int) -> Tensor:
    """``prompts`` [documents, P] followed by the target's own choices, [documents, P + new]."""
    tokens = prompts
    for _ in range(new_tokens):
        logits, _ = target(tokens)
        tokens = torch.cat([tokens, logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    return tokens


@torch.no_grad()
def right_proposals(
    target: ReadableTarget,
    draft: Draft,
    target_ids: Tensor,
    layer_ids: Sequence[int],
    tokens: Tensor,
    steps: int,
) -> Tensor:
    """bool [documents, rows, steps]: does the k-th proposal after row t match the target?

    ``target_ids`` [draft vocabulary] are the target's ids of the draft's tokens; ``tokens``
    [documents, T] must be the target's own greedy text (``continue_greedily``, or a server's
    output); rows are T - steps - 1.
    """
    logits, hidden_states = target(tokens)
    rows = tokens.shape[1] - steps - 1
    aux = layer_outputs(hidden_states, layer_ids)[:, :rows].float()
    step_logits = draft(aux, target.embed(tokens[:, 1 : rows + steps]), steps)
    choices = logits.argmax(-1)
    matches = [
        target_ids[proposed.argmax(-1)] == choices[:, 1 + step : 1 + step + rows]
        for step, proposed in enumerate(step_logits)
    ]
    return torch.stack(matches, dim=-1)


def replay(right: Tensor, prompt_length: int, max_new_tokens: int, steps: int) -> Replay:
    """Walk every document of ``right`` from the end of its prompt for ``max_new_tokens`` tokens.

    As in a server's counters, the last verify step counts in the histogram with all it accepted,
    while tokens beyond ``max_new_tokens`` do not count as new tokens.

    Raises ValueError if the text behind ``right`` was shorter than prompt_length +
    max_new_tokens + steps - 1 tokens, so that the last verify steps would be missing.
    """
    rows_needed = prompt_length + max_new_tokens - 2
    if right.shape[1] < rows_needed:
        raise ValueError(
            f"{right.shape[1]} rows are too few to replay {max_new_tokens} tokens behind a prompt "
            f"of {prompt_length}: {rows_needed} are needed"
        )
    new_tokens = 0
    counts: Counter[int] = Counter()
    for document in right[:, :, :steps].tolist():
        row, made = prompt_length - 1, 1  # prefill made the first new token
        while made < max_new_tokens:
            accepted = _leading_true(document[row])
            counts[accepted] += 1
            made += accepted + 1
            row += accepted + 1
        new_tokens += min(made, max_new_tokens)
    return Replay(new_tokens, tuple(counts[k] for k in range(steps + 1)))


def _leading_true(flags: Sequence[bool]) -> int:
    for place, flag in enumerate(flags):
        if not flag:
            return place
    return len(flags)
