"""Cache locations and moves against loops over requests and columns."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

POOL_LEN = 40


def table_of(rng: random.Random) -> list[list[int]]:
    return [[rng.randrange(1, 5000) for _ in range(POOL_LEN)] for _ in range(10)]


def int32(rows: Any) -> Any:
    return torch.tensor(rows, dtype=torch.int32)


@pytest.fixture(params=range(8))
def rng(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


@pytest.fixture
def ranges(rng: random.Random) -> list[tuple[int, int, int]]:
    """(row, start, end) per request, some of them empty."""
    batch = rng.randint(1, 6)
    starts = [rng.randint(0, 20) for _ in range(batch)]
    return [
        (row, start, start + rng.randint(0, 8))
        for row, start in zip(rng.sample(range(10), batch), starts, strict=True)
    ]


@pytest.mark.parametrize("length_type", [torch.int32, torch.int64], ids=str)
def test_allocated_slots_enter_the_table(
    kernel: ModuleType, rng: random.Random, ranges: list[tuple[int, int, int]], length_type: Any
) -> None:
    table = table_of(rng)
    found = int32(table)
    fresh = [rng.randrange(5000, 9000) for _ in range(sum(e - s for _, s, e in ranges))]
    rows, starts, ends = zip(*ranges, strict=True)
    kernel.assign_req_to_token_pool_cpu(
        torch.tensor(rows),
        found,
        torch.tensor(starts, dtype=length_type),
        torch.tensor(ends, dtype=length_type),
        torch.tensor(fresh, dtype=torch.int64),
        POOL_LEN,
    )
    left = iter(fresh)
    for row, start, end in ranges:
        for column in range(start, end):
            table[row][column] = next(left)
    assert found.tolist() == table


def test_extend_locations_are_packed(
    kernel: ModuleType, rng: random.Random, ranges: list[tuple[int, int, int]]
) -> None:
    table = table_of(rng)
    expected = [table[row][column] for row, start, end in ranges for column in range(start, end)]
    found = torch.full((len(expected) + 3,), -5)
    rows, starts, ends = zip(*ranges, strict=True)
    kernel.assign_extend_cache_locs_cpu(
        torch.tensor(rows), int32(table), torch.tensor(starts), torch.tensor(ends), found, POOL_LEN
    )
    assert found.tolist() == [*expected, -5, -5, -5]


@pytest.mark.parametrize(("topk", "num_steps"), [(1, 3), (1, 5), (4, 3), (2, 2)])
def test_draft_locations_and_the_branches_that_read_them(
    kernel: ModuleType, rng: random.Random, topk: int, num_steps: int
) -> None:
    table = table_of(rng)
    batch = rng.randint(1, 5)
    rows = rng.sample(range(10), batch)
    lengths = [rng.randint(1, POOL_LEN - topk * num_steps) for _ in range(batch)]
    found = torch.full((batch * topk * num_steps,), -5)
    kernel.assign_draft_cache_locs_contiguous_cpu(
        torch.tensor(rows), int32(table), torch.tensor(lengths), found, POOL_LEN, topk, num_steps
    )
    branches = kernel.build_draft_decode_metadata_cpu(
        int32(table), torch.tensor(rows), torch.tensor(lengths), topk, num_steps, POOL_LEN
    )
    assert len(branches) == batch * topk
    by_branch = found.view(batch, topk, num_steps)
    for i, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        for branch in range(topk):
            first = length + branch * num_steps
            own = [table[row][first + step] for step in range(num_steps)]
            # Written there by the draft's step, read from there by the branch's attention.
            assert by_branch[i, branch].tolist() == own
            seen = branches[i * topk + branch, : length + num_steps].tolist()
            assert seen == table[row][:length] + own


def test_accepted_locations_are_packed(kernel: ModuleType, rng: random.Random) -> None:
    locations = [rng.randrange(1, 5000) for _ in range(24)]
    accepted = [[rng.choice([-1, rng.randrange(24)]) for _ in range(4)] for _ in range(3)]
    found = torch.full((12,), -5)
    kernel.fill_accept_out_cache_loc_cpu(int32(accepted), torch.tensor(locations), found)
    expected = [locations[node] for row in accepted for node in row if node != -1]
    assert found.tolist() == expected + [-5] * (12 - len(expected))


def test_rows_move_in_every_layer_as_if_at_once(kernel: ModuleType, rng: random.Random) -> None:
    """Sources are also targets of other moves: each row must hold what its source held before."""
    generator = torch.Generator().manual_seed(rng.randrange(1000))
    shapes = [(50, 2, 16), (50, 2, 16), (50, 1, 24)]
    buffers = [torch.randn(*shape, generator=generator).bfloat16() for shape in shapes]
    before = [buffer.clone() for buffer in buffers]
    targets = rng.sample(range(50), 12)
    sources = [rng.choice([t, rng.randrange(50)]) for t in targets]
    kernel.copy_all_layer_kv_cache_cpu(
        torch.tensor([buffer.data_ptr() for buffer in buffers], dtype=torch.uint64),
        torch.tensor([buffer[0].numel() * buffer.element_size() for buffer in buffers]),
        torch.tensor(targets),
        torch.tensor(sources),
    )
    for buffer, old in zip(buffers, before, strict=True):
        for row in range(50):
            source = sources[targets.index(row)] if row in targets else row
            assert torch.equal(buffer[row], old[source])
