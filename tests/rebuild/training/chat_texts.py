"""What a chat model writes: greedy answers to composed prompts, and to prompts of its own."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

from tests.rebuild.training.chat_prompts import PROMPTS, training_prompts
from tests.rebuild.training.language_model import LanguageModel, Text

COMPOSED, OWN = "answers to composed prompts", "answers to prompts of its own"
TURNS = (OWN, COMPOSED, OWN, OWN)
"""What is written in turns. Most of it answers prompts of the target's own: a draft whose text was
mostly composed prompts accepted 2.67 on others of these, and 1.87 on `builtin:chat`."""
OWN_PROMPT_TOKENS = 64
OWN_PROMPT_TEMPERATURE = 0.8


def generate(
    target: LanguageModel,
    *,
    rows: int,
    new_tokens: int,
    seed: int,
    enough: Callable[[], bool],
    say: Callable[[str], None],
) -> dict[str, list[Text]]:
    """Texts of ``rows`` rows by their kind, until it is ``enough`` and there is one of each."""
    prompts = sorted((target.render(m) for m in training_prompts(PROMPTS, seed)), key=len)
    groups = [prompts[start : start + rows] for start in range(0, len(prompts), rows)]
    random.Random(seed).shuffle(groups)
    composed = itertools.cycle(groups)
    texts: dict[str, list[Text]] = {OWN: [], COMPOSED: []}
    for kind in itertools.cycle(TURNS):
        if enough() and all(texts.values()):
            break
        if kind == OWN:
            group = target.own_prompts(rows, OWN_PROMPT_TOKENS, OWN_PROMPT_TEMPERATURE)
        else:
            group = next(composed)
        texts[kind].append(target.continued(group, new_tokens))
        shown = target.tokenizer.decode(group[0])[-160:]
        say(f"{kind}: {len(group)} of up to {max(map(len, group))} tokens, as {shown!r}")
    return texts
