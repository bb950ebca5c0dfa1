"""One rank of a tensor-parallel pair: ``RANK WORLD RENDEZVOUS FOLDER``, run by the test beside it.

Each rank holds half of every projection, so a layer's output is a partial sum until the fused
method of the next norm reduces it: a hook on the layer or on the norm sees it wrong or not at all.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from draftgate_probes.hooks import watch
from torch import nn

WIDTH, DEPTH, ROWS = 32, 6, 20
CAPTURES = (2, 3, 4)


class Norm(nn.Module):
    def forward(self, x: Any, residual: Any = None) -> Any:
        if residual is None:
            return nn.functional.rms_norm(x, (WIDTH,))
        residual = residual + x
        return nn.functional.rms_norm(residual, (WIDTH,)), residual

    def forward_with_allreduce_fusion(self, x: Any, residual: Any) -> Any:
        dist.all_reduce(x)
        return self.forward(x, residual)


class Layer(nn.Module):
    def __init__(self, rank: int, world: int) -> None:
        super().__init__()
        self.input_layernorm = Norm()
        whole = torch.randn(WIDTH, WIDTH) / WIDTH**0.5
        rows = slice(rank * WIDTH // world, (rank + 1) * WIDTH // world)
        self.shard = nn.Parameter(whole[rows])
        self.mine = rows

    def forward(self, hidden: Any, residual: Any) -> Any:
        if residual is None:
            hidden, residual = self.input_layernorm(hidden), hidden
        else:
            hidden, residual = self.input_layernorm.forward_with_allreduce_fusion(hidden, residual)
        return hidden[:, self.mine] @ self.shard, residual


class Target(nn.Module):
    def __init__(self, rank: int, world: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(rank, world) for _ in range(DEPTH))
        self.norm = Norm()

    def forward(self, embeds: Any, positions: Any, forward_batch: Any) -> Any:
        hidden, residual, captured = embeds, None, []
        for i, layer in enumerate(self.layers):
            hidden, residual = layer(hidden, residual)
            if i in CAPTURES:
                captured.append(residual.clone())
        dist.all_reduce(hidden)
        return self.norm(hidden, residual)[0], captured


class Draft(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(WIDTH * len(CAPTURES), WIDTH)

    def forward(self, embeds: Any, positions: Any, forward_batch: Any) -> Any:
        return self.fc(forward_batch.spec_info.hidden_states)


def main() -> None:
    rank, world, rendezvous, folder = sys.argv[1:]
    dist.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=int(rank), world_size=int(world)
    )
    torch.manual_seed(3)
    target, draft = Target(int(rank), int(world)), Draft()
    for model in (target, draft):
        model.register_forward_hook(watch({"folder": folder}))
    embeds = torch.randn(ROWS, WIDTH)
    mode = SimpleNamespace(name="EXTEND")
    with torch.inference_mode():
        for _ in range(2):  # the first pass installs the observers
            batch = SimpleNamespace(forward_mode=mode, spec_info=None)
            _, captured = target(embeds, None, batch)
            spec_info = SimpleNamespace(hidden_states=torch.cat(captured, dim=-1))
            draft(embeds, None, SimpleNamespace(forward_mode=mode, spec_info=spec_info))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
