"""The module names of real model classes, and which of them the hook is put on."""

from __future__ import annotations

import fnmatch
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from draftgate.probes.hooks import INNER_MODELS, SITE, probe_flags

torch = pytest.importorskip("torch")
nn = torch.nn


class Tree(nn.Module):  # type: ignore[misc, name-defined]
    """Named children and nothing else."""

    def __init__(self, **children: Any) -> None:
        super().__init__()
        for name, child in children.items():
            setattr(self, name, child)


def inner(depth: int = 4, **more: Any) -> Tree:
    def layer() -> Tree:
        return Tree(
            self_attn=Tree(),
            mlp=Tree(),
            input_layernorm=nn.Identity(),
            post_attention_layernorm=nn.Identity(),
        )

    layers = nn.ModuleList(layer() for _ in range(depth))
    return Tree(embed_tokens=nn.Identity(), layers=layers, norm=nn.Identity(), **more)


class KimiLike(Tree):
    """The wrapper's `model` is a property, and setting it is ignored (kimi_k25.py)."""

    @property
    def model(self) -> Any:
        return self.language_model


def internvl_like() -> Tree:
    """`self.model = self.language_model.model`: one module under two names (internvl.py)."""
    tree = Tree(vision_model=inner(), language_model=Tree(model=inner()))
    tree.model = tree.language_model.model
    return tree


TREES = {
    "llama, qwen3, deepseek_v2": (Tree(model=inner(), lm_head=nn.Identity()), ["model"]),
    "kimi_k25": (
        KimiLike(
            vision_tower=Tree(encoder=Tree(blocks=nn.ModuleList([Tree()]))),
            mm_projector=nn.Identity(),
            language_model=Tree(model=inner(), lm_head=nn.Identity()),
        ),
        ["language_model.model"],
    ),
    "llama_eagle3": (Tree(model=inner(1, fc=nn.Identity()), lm_head=nn.Identity()), ["model"]),
    "kimi_k25_eagle3": (Tree(model=Tree(fc=nn.Identity(), midlayer=Tree())), ["model"]),
    "wrapped once more": (
        Tree(thinker=Tree(language_model=Tree(model=inner()))),
        ["thinker.language_model.model"],
    ),
    "internvl": (internvl_like(), ["language_model.model"]),
}


def matched(tree: Any) -> list[str]:
    """Names SGLang would put the hook on (hook_manager.py: fnmatch over named_modules)."""
    return [
        name
        for name, _ in tree.named_modules()
        if any(fnmatch.fnmatch(name, pattern) for pattern in INNER_MODELS)
    ]


@pytest.mark.parametrize("kind", TREES)
def test_one_module_of_every_model_is_hooked(kind: str) -> None:
    tree, expected = TREES[kind]
    assert matched(tree) == expected


def test_every_layer_below_the_hooked_module_is_tapped_once(in_server: ModuleType) -> None:
    tree, (name,) = TREES["kimi_k25"]
    taps = __import__("draftgate_probes.taps", fromlist=["tap_streams"])
    found = taps.tap_streams(tree.get_submodule(name), lambda name, states: None)
    hooked = [n for n, module in tree.named_modules() if module._forward_hooks]
    assert hooked == [
        *(f"language_model.model.layers.{i}.input_layernorm" for i in range(4)),
        "language_model.model.norm",
    ]
    for tap in found:
        tap.remove()
    assert not any(module._forward_hooks for module in tree.modules())


@pytest.mark.parametrize(("kind", "draft"), [("kimi_k25", False), ("llama_eagle3", True)])
def test_roles(in_server: ModuleType, kind: str, draft: bool) -> None:
    watcher = __import__("draftgate_probes.watcher", fromlist=["is_draft"])
    tree, (name,) = TREES[kind]
    assert watcher.is_draft(tree.get_submodule(name)) is draft


def test_the_flag_names_the_hook_and_the_folder(tmp_path: Path) -> None:
    flag, value = probe_flags(tmp_path)
    spec, _ = json.loads(value)
    assert flag == "--forward-hooks"
    assert spec["hook_factory"] == "draftgate_probes.hooks:watch"
    assert spec["config"] == {"folder": str(tmp_path)}
    assert (SITE / "draftgate_probes" / "hooks.py").is_file()


def test_sglangs_own_hook_manager_accepts_the_flag(in_server: ModuleType, tmp_path: Path) -> None:
    """The real registration code, loaded alone: the rest of SGLang takes seconds to import."""
    sglang = importlib.util.find_spec("sglang")
    if sglang is None or not sglang.submodule_search_locations:
        pytest.skip("SGLang is not installed here")
    path = Path(sglang.submodule_search_locations[0]) / "srt/model_executor/hook_manager.py"
    spec = importlib.util.spec_from_file_location("hook_manager_alone", path)
    assert spec is not None
    assert spec.loader is not None
    manager = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(manager)
    tree = Tree(model=inner())
    manager.register_forward_hooks(tree, json.loads(probe_flags(tmp_path)[1]))
    assert [n for n, module in tree.named_modules() if module._forward_hooks] == ["model"]
