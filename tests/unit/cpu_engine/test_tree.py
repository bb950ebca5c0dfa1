"""Building and verifying trees against a draft simulated with named nodes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

FULL_MASK, QLEN_ONLY, QLEN_ONLY_BITPACKING = 0, 1, 2


@dataclass(frozen=True)
class Candidate:
    """A proposed token: its path from the root, as candidate numbers, and its score."""

    path: tuple[int, ...]
    number: int
    score: float


def drafted(rng: random.Random, topk: int, num_steps: int) -> tuple[list[Candidate], list[int]]:
    """What an EAGLE draft proposes: all candidates, and SGLang's parent list.

    Step 1 proposes ``topk`` children of the root. Each later step keeps the ``topk`` best of the
    last proposals and proposes ``topk`` children of each.
    """
    candidates: list[Candidate] = []
    parent_list = [-1]
    kept = [Candidate((), -1, 1.0)]
    for _step in range(num_steps):
        proposed = []
        for parent in kept:
            for _ in range(topk):
                number = len(candidates) + len(proposed)
                score = parent.score * rng.uniform(0.1, 0.9)
                proposed.append(Candidate((*parent.path, number), number, score))
        candidates += proposed
        kept = sorted(proposed, key=lambda c: -c.score)[:topk]
        parent_list += [c.number for c in kept]
    return candidates, parent_list[: 1 + topk * (num_steps - 1)]


def selected_best(candidates: list[Candidate], count: int) -> list[Candidate]:
    best = sorted(candidates, key=lambda c: -c.score)[:count]
    return sorted(best, key=lambda c: c.number)


CONFIGURATIONS = [(1, 3, 4), (1, 5, 6), (2, 3, 5), (4, 3, 8), (4, 5, 16), (8, 2, 9), (4, 1, 4)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids="topk{0[0]}-steps{0[1]}".format)
@pytest.mark.parametrize("mode", [FULL_MASK, QLEN_ONLY])
def test_build(
    kernel: ModuleType, seed: int, configuration: tuple[int, int, int], mode: int
) -> None:
    topk, num_steps, nodes = configuration
    rng = random.Random(seed)
    batch = 1 + seed % 4
    seq_lens = [rng.randint(1, 30) for _ in range(batch)]
    drafts = [drafted(rng, topk, num_steps) for _ in range(batch)]
    chosen = [selected_best(candidates, nodes - 1) for candidates, _ in drafts]
    prefix_cells = sum(seq_lens) * nodes if mode == FULL_MASK else 0
    mask = torch.tensor([rng.random() < 0.5 for _ in range(prefix_cells + batch * nodes**2)])
    before = mask.clone()
    positions = torch.full((batch * nodes,), -7)
    index, next_token, next_sibling = torch.full((3, batch, nodes), -1)
    kernel.build_tree_kernel_efficient_cpu(
        torch.tensor([parents for _, parents in drafts]),
        torch.tensor([[c.number for c in nodes_] for nodes_ in chosen]),
        torch.tensor(seq_lens),
        mask,
        positions,
        index,
        next_token,
        next_sibling,
        topk,
        num_steps,
        nodes,
        mode,
    )
    assert index.tolist() == [[b * nodes + i for i in range(nodes)] for b in range(batch)]
    cursor = 0
    for b in range(batch):
        paths = [(), *(c.path for c in chosen[b])]
        assert positions[b * nodes : (b + 1) * nodes].tolist() == [
            seq_lens[b] + len(path) for path in paths
        ]
        for i, path in enumerate(paths):
            width = seq_lens[b] if mode == FULL_MASK else 0
            assert torch.equal(mask[cursor : cursor + width], before[cursor : cursor + width])
            cursor += width
            # Node i sees node j exactly if j's path is a beginning of i's.
            sees = [path[: len(other)] == other for other in paths]
            assert mask[cursor : cursor + nodes].tolist() == sees
            cursor += nodes
            children = [j for j, other in enumerate(paths) if j and other[:-1] == path]
            assert linked_children(next_token[b].tolist(), next_sibling[b].tolist(), i) == children
    assert cursor == mask.numel()


def linked_children(next_token: list[int], next_sibling: list[int], node: int) -> list[int]:
    found = []
    at = next_token[node]
    while at != -1:
        found.append(at)
        at = next_sibling[at]
    return found


def test_a_bit_packed_mask_is_refused(kernel: ModuleType) -> None:
    empty = torch.empty(1, 0, dtype=torch.long)
    with pytest.raises(NotImplementedError, match="bit-packed tree mask is not part of"):
        kernel.build_tree_kernel_efficient_cpu(*[empty] * 8, 4, 3, 8, QLEN_ONLY_BITPACKING)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids="topk{0[0]}-steps{0[1]}".format)
def test_verify(kernel: ModuleType, seed: int, configuration: tuple[int, int, int]) -> None:
    topk, num_steps, nodes = configuration
    rng = random.Random(seed)
    batch = 1 + seed % 4
    chosen = [selected_best(drafted(rng, topk, num_steps)[0], nodes - 1) for _ in range(batch)]
    paths = [[(), *(c.path for c in nodes_)] for nodes_ in chosen]
    tokens, wanted, links = [], [], []
    for b in range(batch):
        tokens.append(sibling_tokens(rng, paths[b]))
        # The target agrees with one of a node's children three times in four.
        wanted.append([])
        for path in paths[b]:
            children = [j for j, other in enumerate(paths[b]) if j and other[:-1] == path]
            agrees = children and rng.random() < 0.75
            wanted[b].append(tokens[b][rng.choice(children)] if agrees else 1000 + rng.randrange(9))
        links.append(linked(paths[b]))
    predicts = torch.zeros(batch * nodes, dtype=torch.int32)
    accept_index = torch.full((batch, num_steps + 1), -1, dtype=torch.int32)
    accept_token_num = torch.empty(batch, dtype=torch.int32)
    kernel.verify_tree_greedy_cpu(
        predicts=predicts,
        accept_index=accept_index,
        accept_token_num=accept_token_num,
        candidates=torch.tensor(tokens),
        retrive_index=torch.arange(batch * nodes).view(batch, nodes),
        retrive_next_token=torch.tensor([first for first, _ in links]),
        retrive_next_sibling=torch.tensor([sibling for _, sibling in links]),
        target_predict=torch.tensor(wanted),
    )
    expected_predicts = [0] * (batch * nodes)
    for b in range(batch):
        accepted = [0]
        while True:
            node = accepted[-1]
            expected_predicts[b * nodes + node] = wanted[b][node]
            matches = [
                j
                for j, path in enumerate(paths[b])
                if j and path[:-1] == paths[b][node] and tokens[b][j] == wanted[b][node]
            ]
            if not matches:
                break
            accepted.append(matches[0])
        padding = [-1] * (num_steps + 1 - len(accepted))
        assert accept_index[b].tolist() == [b * nodes + node for node in accepted] + padding
        assert accept_token_num[b] == len(accepted) - 1
    assert predicts.tolist() == expected_predicts


def sibling_tokens(rng: random.Random, paths: list[tuple[int, ...]]) -> list[int]:
    """A token per node, siblings distinct; 0 for the root."""
    free: dict[tuple[int, ...], list[int]] = {}
    tokens = [0]
    for path in paths[1:]:
        pool = free.setdefault(path[:-1], rng.sample(range(1, 40), 20))
        tokens.append(pool.pop())
    return tokens


def linked(paths: list[tuple[int, ...]]) -> tuple[list[int], list[int]]:
    first, sibling = [-1] * len(paths), [-1] * len(paths)
    for i, path in enumerate(paths):
        children = [j for j, other in enumerate(paths) if j and other[:-1] == path]
        if children:
            first[i] = children[0]
        for left, right in pairwise(children):
            sibling[left] = right
    return first, sibling


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("flat", [True, False])
def test_bonus_token_is_the_last_accepted_one(kernel: ModuleType, seed: int, flat: bool) -> None:
    rng = random.Random(seed)
    batch, stride = 1 + seed, 4
    tokens = [[rng.randrange(100) for _ in range(stride)] for _ in range(batch)]
    lengths = [rng.randint(1, stride) for _ in range(batch)]
    given = torch.tensor(tokens, dtype=torch.int32)
    bonus = torch.full((batch,), -1, dtype=torch.int32)
    kernel.fill_bonus_tokens_cpu(
        given.flatten() if flat else given, torch.tensor(lengths, dtype=torch.int32), bonus, stride
    )
    assert bonus.tolist() == [row[n - 1] for row, n in zip(tokens, lengths, strict=True)]
