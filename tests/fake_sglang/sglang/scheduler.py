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
    """Tokens of `prompt` that the cache holds; the last two are always computed."""
    found = 0
    for earlier in cache:
        same = 0
        for a, b in zip(prompt, earlier, strict=False):
            if a != b:
                break
            same += 1
        found = max(found, same)
    return max(0, min(found, len(prompt) - 2))


def main() -> None:
    Path("/proc/self/comm").write_text("sglang::scheduler")  # as setproctitle does
    send({"ready": True})
    caches: dict[int, list[list[int]]] = {}
    for line in sys.stdin:
        order = json.loads(line)
        if order.get("flush"):
            caches.clear()
            continue
        prompt, count = order["input_ids"], order["max_new_tokens"]
        text = text_of(prompt, count)
        cache = caches.setdefault(order["rank"], [])
        cached = longest_prefix(prompt, cache)
        cache.append(prompt)
        made = 1
        answer = {"id": order["id"], "cached_tokens": cached}
        send({**answer, "tokens": text[:1], "is_last": count == 1})
        for new in steps_of(prompt, count, order["num_steps"]):
            time.sleep(STEP_S)
            made += new
            send({**answer, "tokens": text[made - new : made], "is_last": made == count})


def send(answer: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
