"""Random training batches of the byte language, and the learning-rate schedule."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.rebuild.training.language import Language

BATCH_SIZE = 16
DOCUMENT_LENGTH = 160


def training_batch(
    language: Language,
    generator: torch.Generator,
    batch_size: int = BATCH_SIZE,
    length: int = DOCUMENT_LENGTH,
) -> Tensor:
    """Token ids [batch_size, length] of documents at random starts of the training split."""
    picks = torch.randint(len(language.training_starts), (batch_size,), generator=generator)
    starts = [language.training_starts[pick] for pick in picks.tolist()]
    return torch.tensor([language.document(start, length) for start in starts])


def learning_rate_factor(step: int, steps: int, warm_up_steps: int, decay_from: float) -> float:
    """Linear warm-up, a plateau, and from the share ``decay_from`` on a linear decay to 0.02."""
    progress = step / steps
    decay = 1.0 if progress < decay_from else max(0.02, (1 - progress) / (1 - decay_from))
    return min(1.0, (step + 1) / warm_up_steps) * decay
