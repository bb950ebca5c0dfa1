"""The child that makes the tokens: one JSON request a line in, one line a verify step out.

What it generates depends on the prompt alone, so that a server with speculation gives the same
text as one without. Each data-parallel rank has a cache of its own.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from . import faults

STEP_S = float(os.environ.get("FAKE_SGLANG_STEP_S", "0.0002"))
"""A forward pass."""
VOCABULARY = 128


def text_of(prompt: list[int], count: int) -> list[int]:
    """The next `count` tokens."""
    seed = sum((place + 1) * token for place, token in enumerate(prompt))
    return [(seed + 31 * place + place * place) % VOCABULARY for place in range(count)]


def steps_of(prompt: list[int], count: int, num_steps: int) -> Iterator[int]:
    """Tokens each verify step yields: 1 + the drafts that were right, cut at `count`.

    The prefill yields the first token. 6 of 7 steps accept all drafts, the others none.
    """
    made = 1
    place = sum(prompt)
    while made < count:
        right = num_steps if place % 7 else 0
        place += 1
        yield min(1 + right, count - made)
        made += 1 + right


def longest_prefix(prompt: list[int], cache: list[list[int]]) -> int:
    """Tokens of `prompt` that stand at the beginning of something cached."""
    found = 0
    for earlier in cache:
        same = 0
        for a, b in zip(prompt, earlier, strict=False):
            if a != b:
                break
            same += 1
        found = max(found, same)
    return found


def main() -> None:
    Path("/proc/self/comm").write_text("sglang::scheduler")  # as setproctitle does
    send({"ready": True})
    # What each was asked, and what it holds in its cache.
    ranks: dict[int, tuple[list[list[int]], list[list[int]]]] = {}
    for line in sys.stdin:
        order = json.loads(line)
        if order.get("flush"):
            ranks.clear()
            continue
        prompt, count, num_steps = order["input_ids"], order["max_new_tokens"], order["num_steps"]
        text = text_of(prompt, count)
        asked, cache = ranks.setdefault(order["rank"], ([], []))
        # The last token is always computed; a server that speculates looks for pairs of tokens.
        found = min(longest_prefix(prompt, cache), len(prompt) - 1)
        cached = max(0, found - 1) if num_steps else found
        if faults.fault == "generated_keys_lost" and found > longest_prefix(prompt, asked):
            num_steps = 0  # no draft is right any more: a token a step
        asked.append(prompt)
        made = 1
        answer = {"id": order["id"], "cached_tokens": cached}
        send({**answer, "tokens": text[:1], "is_last": count == 1})
        for new in steps_of(prompt, count, num_steps):
            time.sleep(STEP_S)
            made += new
            send({**answer, "tokens": text[made - new : made], "is_last": made == count})
        # The last token was never computed; everything before is kept.
        cache.append(prompt if faults.fault == "generated_not_cached" else prompt + text[:-1])


def send(answer: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
