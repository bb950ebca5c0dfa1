"""The attention operators against softmax attention written out, one query and head at a time."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

POOL_LEN, SLOTS = 64, 700


def attended(query: Any, keys: list[Any], values: list[Any], scale: float) -> Any:
    """Definition, in float64: softmax of scaled dot products, weighted sum of values."""
    scores = [float(torch.dot(query.double(), key.double())) * scale for key in keys]
    top = max(scores)
    weights = [torch.exp(torch.tensor(score - top, dtype=torch.float64)) for score in scores]
    total = sum(weights)
    return sum(
        weight / total * value.double() for weight, value in zip(weights, values, strict=True)
    )


class Case:
    """A cache, a table and a batch of requests with random lengths."""

    def __init__(self, seed: int, heads: int, kv_heads: int, dim: int, dtype: Any) -> None:
        self.rng = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.heads, self.kv_heads, self.dim, self.dtype = heads, kv_heads, dim, dtype
        self.k_buffer = self.tensor(SLOTS, kv_heads, dim)
        self.v_buffer = self.tensor(SLOTS, kv_heads, dim)
        # No slot is shared: ten requests of POOL_LEN slots each, shuffled. Slot 0 is padding.
        slots = list(range(1, 10 * POOL_LEN + 1))
        self.rng.shuffle(slots)
        self.table = torch.tensor(slots, dtype=torch.int32).view(10, POOL_LEN)
        self.scale = dim**-0.5

    def tensor(self, *shape: int) -> Any:
        return torch.randn(*shape, generator=self.generator).to(self.dtype)

    def group(self, head: int) -> int:
        return head // (self.heads // self.kv_heads)

    def assert_close(self, found: Any, expected: Any) -> None:
        # One rounding of the result to the cache's type is all that may differ.
        tolerance = 2**-8 if self.dtype is torch.bfloat16 else 2e-6
        torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


SHAPES = [(4, 2, 16), (8, 8, 8), (6, 1, 32), (9, 3, 64)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_decode(kernel: ModuleType, seed: int, shape: tuple[int, int, int], dtype: Any) -> None:
    case = Case(seed, *shape, dtype)
    batch = [1, 1, 2, 3, 5, 8][seed]
    rows = case.rng.sample(range(10), batch)
    lengths = [case.rng.randint(1, POOL_LEN) for _ in range(batch)]
    query = case.tensor(batch, case.heads, case.dim)
    key, value = (case.tensor(batch, case.kv_heads, case.dim) for _ in range(2))
    last_slots = [int(case.table[r, n - 1]) for r, n in zip(rows, lengths, strict=True)]
    before = case.k_buffer.clone(), case.v_buffer.clone()
    output = torch.full_like(query, float("nan"))
    torch.ops.sgl_kernel.decode_attention_cpu(
        query,
        case.k_buffer,
        case.v_buffer,
        1.0,
        1.0,
        output,
        key,
        value,
        torch.tensor(last_slots),
        torch.zeros(batch, case.heads, 8, case.dim + 1),
        case.table,
        torch.tensor(rows),
        torch.tensor(lengths),
        case.scale,
        0.0,
        False,
        0,
        None,
        None,
    )
    expected = torch.empty(batch, case.heads, case.dim, dtype=torch.float64)
    for i, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        slots = [int(slot) for slot in case.table[row, : length - 1]]
        for head in range(case.heads):
            group = case.group(head)
            keys = [before[0][slot, group] for slot in slots] + [key[i, group]]
            values = [before[1][slot, group] for slot in slots] + [value[i, group]]
            expected[i, head] = attended(query[i, head], keys, values, case.scale)
    case.assert_close(output, expected)
    # The new keys and values are in the cache, and nothing else changed.
    for buffer, old, new in ((case.k_buffer, before[0], key), (case.v_buffer, before[1], value)):
        for i, slot in enumerate(last_slots):
            assert torch.equal(buffer[slot], new[i])
        others = torch.ones(SLOTS, dtype=torch.bool)
        others[last_slots] = False
        assert torch.equal(buffer[others], old[others])


def run_extend(
    case: Case, rows: list[int], prefixes: list[int], counts: list[int], tree_mask: Any
) -> tuple[Any, Any, Any, Any]:
    tokens = sum(counts)
    query = case.tensor(tokens, case.heads, case.dim)
    key, value = (case.tensor(tokens, case.kv_heads, case.dim) for _ in range(2))
    starts = [sum(counts[:i]) for i in range(len(counts))]
    for i, row in enumerate(rows):  # the back end stores them before it calls
        new = case.table[row, prefixes[i] : prefixes[i] + counts[i]].long()
        case.k_buffer[new] = key[starts[i] : starts[i] + counts[i]]
        case.v_buffer[new] = value[starts[i] : starts[i] + counts[i]]
    output = torch.full_like(query, float("nan"))
    totals = [p + n for p, n in zip(prefixes, counts, strict=True)]
    torch.ops.sgl_kernel.extend_attention_cpu(
        query,
        key,
        value,
        output,
        case.k_buffer,
        case.v_buffer,
        1.0,
        1.0,
        case.table,
        torch.tensor(rows),
        torch.tensor(totals),
        torch.tensor(counts, dtype=torch.int32),
        torch.tensor(starts, dtype=torch.int32),
        max(counts),
        case.scale,
        0.0,
        False,
        0,
        None,
        None,
        tree_mask,
        True,
    )
    return query, key, value, output


def expected_extend(
    case: Case,
    rows: list[int],
    prefixes: list[int],
    counts: list[int],
    sees: Any,
    tensors: tuple[Any, Any, Any],
) -> Any:
    """``sees(request, new query, new key)`` says which new tokens are visible."""
    query, key, value = tensors
    expected = torch.empty(len(query), case.heads, case.dim, dtype=torch.float64)
    token = 0
    for i, (row, prefix, count) in enumerate(zip(rows, prefixes, counts, strict=True)):
        first = token
        for position in range(count):
            for head in range(case.heads):
                group = case.group(head)
                slots = [int(slot) for slot in case.table[row, :prefix]]
                keys = [case.k_buffer[slot, group] for slot in slots]
                values = [case.v_buffer[slot, group] for slot in slots]
                for other in range(count):
                    if sees(i, position, other):
                        keys.append(key[first + other, group])
                        values.append(value[first + other, group])
                expected[token, head] = attended(query[token, head], keys, values, case.scale)
            token += 1
    return expected


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("shape", SHAPES[:3])
def test_extend_is_causal_after_a_cached_prefix(
    kernel: ModuleType, seed: int, shape: tuple[int, int, int]
) -> None:
    """Ragged prefill (with and without radix-cache hits) and uniform verify chains."""
    case = Case(seed, *shape, torch.bfloat16 if seed % 2 else torch.float32)
    batch = 1 + seed % 4
    rows = case.rng.sample(range(10), batch)
    if seed < 4:
        counts = [case.rng.randint(1, 20) for _ in range(batch)]
        prefixes = [case.rng.choice([0, 0, 1, 30]) for _ in range(batch)]
    else:
        counts = [4] * batch
        prefixes = [case.rng.randint(0, 40) for _ in range(batch)]
    query, key, value, output = run_extend(case, rows, prefixes, counts, None)
    expected = expected_extend(
        case, rows, prefixes, counts, lambda _i, q, k: k <= q, (query, key, value)
    )
    case.assert_close(output, expected)


@pytest.mark.parametrize("seed", range(6))
def test_extend_with_a_tree(kernel: ModuleType, seed: int) -> None:
    """Each draft token sees the prefix, itself and its ancestors: here random ancestor sets."""
    case = Case(seed, 4, 2, 16, torch.float32)
    batch, count = 1 + seed % 3, 8
    rows = case.rng.sample(range(10), batch)
    prefixes = [case.rng.randint(0, 40) for _ in range(batch)]
    cells = [
        [
            [k == q or k == 0 or (k < q and case.rng.random() < 0.5) for k in range(count)]
            for q in range(count)
        ]
        for _ in range(batch)
    ]
    flat = [seen for tree in cells for row in tree for seen in row]
    flat += [False] * 50  # the buffer may be longer than the batch needs
    query, key, value, output = run_extend(
        case, rows, prefixes, [count] * batch, torch.tensor(flat)
    )
    expected = expected_extend(
        case, rows, prefixes, [count] * batch, lambda i, q, k: cells[i][q][k], (query, key, value)
    )
    case.assert_close(output, expected)


def test_stale_slots_beyond_a_short_sequence_do_not_leak(kernel: ModuleType) -> None:
    """A batch is padded to its longest sequence; the padding's keys may be huge."""
    case = Case(0, 4, 2, 16, torch.float32)
    alone = decode_rows(case, [3], [5])
    case.k_buffer[case.table[3, 5:].long()] = 1e4
    case.v_buffer[case.table[3, 5:].long()] = 1e4
    together = decode_rows(case, [3, 4], [5, 60])
    torch.testing.assert_close(together[0], alone[0], rtol=1e-6, atol=1e-6)


def decode_rows(case: Case, rows: list[int], lengths: list[int], **changes: Any) -> Any:
    query = torch.ones(len(rows), case.heads, case.dim, dtype=case.dtype)
    output = torch.empty_like(query)
    settings = {"k_scale": 1.0, "logit_cap": 0.0, "cross": False, "window": 0, "sinks": None}
    settings |= changes
    torch.ops.sgl_kernel.decode_attention_cpu(
        query,
        case.k_buffer,
        case.v_buffer,
        settings["k_scale"],
        1.0,
        output,
        None,
        None,
        None,
        torch.zeros(1),
        case.table,
        torch.tensor(rows),
        torch.tensor(lengths),
        case.scale,
        settings["logit_cap"],
        settings["cross"],
        settings["window"],
        None,
        settings["sinks"],
    )
    return output


@pytest.mark.parametrize(
    "change",
    [{"logit_cap": 30.0}, {"window": 128}, {"k_scale": 0.5}, {"cross": True}],
    ids=lambda change: next(iter(change)),
)
def test_other_kinds_of_attention_are_refused(kernel: ModuleType, change: dict[str, Any]) -> None:
    case = Case(0, 4, 2, 16, torch.float32)
    with pytest.raises(NotImplementedError, match=r"decode_attention_cpu with .* not part of"):
        decode_rows(case, [0], [5], **change)
    with pytest.raises(NotImplementedError, match="attention sinks"):
        decode_rows(case, [0], [5], sinks=torch.zeros(4))
