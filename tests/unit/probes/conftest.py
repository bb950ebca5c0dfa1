"""Loads the in-server package from its folder, as a server finds it, and draws small models for it.

The models follow SGLang's calling conventions: the residual is added inside the norm, in place, so
that the buffer a norm returns is overwritten by the next one.
"""

from __future__ import annotations

import enum
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from draftgate.probes.hooks import SITE

PACKAGE = "draftgate_probes"


class Mode(enum.Enum):
    EXTEND = 1
    DECODE = 2
    TARGET_VERIFY = 3
    DRAFT_EXTEND_V2 = 4


@pytest.fixture(scope="session")
def in_server() -> Iterator[ModuleType]:
    """The module `draftgate_probes.hooks`, imported from SITE."""
    pytest.importorskip("torch", reason="the observers are PyTorch hooks")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SITE))
        module = importlib.import_module(f"{PACKAGE}.hooks")
        assert Path(str(module.__file__)).is_relative_to(SITE)
        yield module
        for name in [n for n in sys.modules if n.split(".")[0] == PACKAGE]:
            del sys.modules[name]


@pytest.fixture
def batch() -> Any:
    """Makes a ForwardBatch as far as the observers read one."""

    def make(mode: str, fed: Any = None) -> SimpleNamespace:
        spec_info = None if fed is None else SimpleNamespace(hidden_states=fed)
        return SimpleNamespace(forward_mode=Mode[mode], spec_info=spec_info)

    return make


@pytest.fixture(scope="session")
def models() -> Any:
    """Classes of small models: see the functions' names."""
    torch = pytest.importorskip("torch")
    nn = torch.nn

    def normed(x: Any) -> Any:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)

    class Norm(nn.Module):  # type: ignore[misc, name-defined]
        """SGLang's RMSNorm on a GPU: adds in place and returns the very buffers it was given."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(()))

        def forward(self, x: Any, residual: Any = None) -> Any:
            if residual is None:
                return normed(x) * self.weight
            residual.add_(x)
            x.copy_(normed(residual) * self.weight)
            return x, residual

        def forward_with_allreduce_fusion(
            self, x: Any, residual: Any = None, use_attn_tp_group: bool = True
        ) -> Any:
            total = x + residual
            return normed(total) * self.weight, total

    class Layer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, width: int, way: str) -> None:
            super().__init__()
            self.way = way
            self.input_layernorm = Norm()
            self.post_attention_layernorm = Norm()
            self.attention = nn.Linear(width, width, bias=False)
            self.mlp = nn.Linear(width, width, bias=False)

        def forward(self, hidden: Any, residual: Any, captured: list[Any] | None) -> Any:
            if residual is None:
                residual = hidden
                hidden = self.input_layernorm(hidden)
            elif self.way == "fused":
                hidden, residual = self.input_layernorm.forward_with_allreduce_fusion(
                    hidden, residual, use_attn_tp_group=False
                )
            elif self.way == "keywords":
                hidden, residual = self.input_layernorm(x=hidden, residual=residual)
            elif self.way == "unseen":
                residual = residual + hidden
                hidden = normed(residual)
            else:
                hidden, residual = self.input_layernorm(hidden, residual)
            if captured is not None:
                captured.append(residual.clone())
            hidden = self.attention(hidden)
            hidden, residual = self.post_attention_layernorm(hidden, residual)
            return self.mlp(hidden), residual

    class Target(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(
            self, captures: tuple[int, ...] = (), way: str = "call", width: int = 64, depth: int = 8
        ) -> None:
            super().__init__()
            self.embed_tokens = nn.Embedding(128, width)
            self.layers = nn.ModuleList(Layer(width, way) for _ in range(depth))
            self.norm = Norm()
            self.captures = captures
            self.packed = False

        def forward(self, ids: Any, positions: Any, forward_batch: Any) -> Any:
            hidden, residual = self.embed_tokens(ids), None
            captured: list[Any] = []
            for i, layer in enumerate(self.layers):
                kept = captured if i in self.captures else None
                hidden, residual = layer(hidden, residual, kept)
            hidden, _ = self.norm(hidden, residual)
            if not captured:
                return hidden
            return hidden, torch.cat(captured, dim=-1) if self.packed else captured

    class Draft(nn.Module):  # type: ignore[misc, name-defined]
        """Llama-Eagle3: equal widths skip `fc`; the residual is added in place."""

        def __init__(self, norm_before_fc: bool = False, width: int = 64, parts: int = 3) -> None:
            super().__init__()
            self.config = SimpleNamespace(hidden_size=width)
            self.embed_tokens = nn.Embedding(128, width)
            self.fc = nn.Linear(width * parts, width, bias=False)
            self.norm_before_fc = norm_before_fc
            self.layers = nn.ModuleList([nn.Linear(2 * width, width, bias=False)])
            self.norm = Norm()

        def forward(self, ids: Any, positions: Any, forward_batch: Any) -> Any:
            embeds = self.embed_tokens(ids)
            hidden = forward_batch.spec_info.hidden_states
            if hidden.shape[-1] != embeds.shape[-1]:
                if self.norm_before_fc:
                    hidden = normed(hidden)
                hidden = self.fc(hidden)
            out = self.layers[0](torch.cat([embeds, normed(hidden)], dim=-1))
            out, residual = self.norm(out, hidden)
            return out, [residual]

    torch.manual_seed(5)
    return SimpleNamespace(Target=Target, Draft=Draft, Norm=Norm)


@pytest.fixture
def attached(in_server: ModuleType, tmp_path: Path) -> Any:
    """Registers the hook on inner models as SGLang does: one factory call per model."""

    def attach(*inner_models: Any) -> Path:
        for model in inner_models:
            model.register_forward_hook(in_server.watch({"folder": str(tmp_path)}))
        return tmp_path

    return attach
