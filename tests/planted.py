"""Copies of a draft folder with one planted fault each, for tests that must see it.

Every function takes the draft's folder and a folder to write, and returns the latter. The
metadata of the weights are kept: they go on saying what the weights were trained on.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

CONFIG = "config.json"
WEIGHTS = "model.safetensors"

Config = dict[str, Any]
Tensors = dict[str, Any]
Plant = Callable[[Path, Path], Path]


def unchanged(draft: Path, into: Path) -> Path:
    """Healthy control: a plain copy."""
    into.mkdir(parents=True, exist_ok=True)
    for name in (CONFIG, WEIGHTS):
        shutil.copyfile(draft / name, into / name)
    return into


def layer_ids_later(draft: Path, into: Path) -> Path:
    """Every layer id one too high."""
    return _with_layer_ids(draft, into, [layer + 1 for layer in layer_ids(draft)])


def layer_ids_earlier(draft: Path, into: Path) -> Path:
    """Every layer id one too low."""
    return _with_layer_ids(draft, into, [layer - 1 for layer in layer_ids(draft)])


def layer_ids_reordered(draft: Path, into: Path) -> Path:
    """Healthy control: SGLang captures in ascending order whatever the order of the ids."""
    first, *others = layer_ids(draft)
    return _with_layer_ids(draft, into, [*others[::-1], first])


def layer_ids_plain(draft: Path, into: Path) -> Path:
    """Ids 1, 3, 5, which are wrong for a draft that was trained on the embedding's output."""
    return _with_layer_ids(draft, into, [1, 3, 5])


def layer_ids_of_another(*ids: int) -> Plant:
    """The layer ids of another draft."""
    return lambda draft, into: _with_layer_ids(draft, into, list(ids))


def layer_ids_first_is_last(draft: Path, into: Path) -> Path:
    """An id twice: SGLang captures two states for a draft that needs three."""
    _, second, last = layer_ids(draft)
    return _with_layer_ids(draft, into, [last, second, last])


def no_eagle_config(draft: Path, into: Path) -> Path:
    """The layer ids are lost, and SGLang captures its default layers."""

    def edit(config: Config) -> None:
        del config["eagle_config"]

    return _with_config(draft, into, edit)


def d2t_shifted(draft: Path, into: Path) -> Path:
    """Every draft token stands for the target token of its predecessor."""

    def edit(tensors: Tensors) -> None:
        place = _places(tensors["d2t"])
        tensors["d2t"] = (tensors["d2t"] + place).roll(1) - place

    return _with_tensors(draft, into, edit)


def d2t_zeros(draft: Path, into: Path) -> Path:
    """Every draft token stands for the target token of the same number."""

    def edit(tensors: Tensors) -> None:
        tensors["d2t"] = tensors["d2t"] * 0

    return _with_tensors(draft, into, edit)


def d2t_absolute(draft: Path, into: Path) -> Path:
    """Target ids where differences to the draft ids belong: some tokens fall off the vocabulary."""

    def edit(tensors: Tensors) -> None:
        tensors["d2t"] = tensors["d2t"] + _places(tensors["d2t"])

    return _with_tensors(draft, into, edit)


def lm_head_removed(draft: Path, into: Path) -> Path:
    """SGLang serves such a draft with whatever its head was initialised to, without a word."""

    def edit(tensors: Tensors) -> None:
        del tensors["lm_head.weight"]

    return _with_tensors(draft, into, edit)


def lm_head_random(draft: Path, into: Path) -> Path:
    """A head that was never trained."""

    def edit(tensors: Tensors) -> None:
        import torch

        head = tensors["lm_head.weight"]
        noise = torch.randn(head.shape, generator=torch.Generator().manual_seed(0))
        tensors["lm_head.weight"] = (noise * 0.05).to(head.dtype)

    return _with_tensors(draft, into, edit)


def other_vocabulary(draft: Path, into: Path) -> Path:
    """The draft of a target with twice the vocabulary: its tokens have other numbers."""

    def edit(tensors: Tensors) -> None:
        import torch

        ids = tensors["d2t"] + _places(tensors["d2t"]) + 100
        tensors["d2t"] = ids - _places(ids)
        twice = torch.zeros(2 * len(tensors["t2d"]), dtype=torch.bool)
        tensors["t2d"] = twice.index_fill(0, ids, True)

    def widen(config: Config) -> None:
        config["vocab_size"] *= 2

    return _edit_config(_with_tensors(draft, into, edit), widen)


def fc_columns_permuted(draft: Path, into: Path) -> Path:
    """`fc` expects the numbers of the hidden states in another order."""

    def edit(tensors: Tensors) -> None:
        import torch

        order = torch.randperm(
            tensors["fc.weight"].shape[1], generator=torch.Generator().manual_seed(0)
        )
        tensors["fc.weight"] = tensors["fc.weight"][:, order]

    return _with_tensors(draft, into, edit)


def fc_chunks_swapped(draft: Path, into: Path) -> Path:
    """`fc` expects the second hidden state first and the first second."""
    return _with_fc_chunks(draft, into, (1, 0, 2))


def fc_chunks_rotated(draft: Path, into: Path) -> Path:
    """`fc` expects the last hidden state first."""
    return _with_fc_chunks(draft, into, (2, 0, 1))


FAULTS: Mapping[str, Plant] = {
    plant.__name__: plant
    for plant in (
        layer_ids_later,
        layer_ids_earlier,
        layer_ids_first_is_last,
        no_eagle_config,
        d2t_shifted,
        d2t_zeros,
        d2t_absolute,
        lm_head_removed,
        lm_head_random,
        other_vocabulary,
        fc_columns_permuted,
        fc_chunks_swapped,
        fc_chunks_rotated,
    )
}
"""Faults of any draft; `layer_ids_plain` is one only for a draft trained on other layers."""

CONTROLS: Mapping[str, Plant] = {
    plant.__name__: plant for plant in (unchanged, layer_ids_reordered)
}
"""Changes that must go unnoticed."""


def another_target(target: Path, into: Path) -> Path:
    """A target that says the same with its hidden channels in another order: for a draft of the
    first one it is another model of the same shape."""

    def edit(tensors: Tensors) -> None:
        import torch

        hidden = tensors["model.norm.weight"].shape[0]
        order = torch.randperm(hidden, generator=torch.Generator().manual_seed(1))
        for name, tensor in tensors.items():
            writes = "o_proj" in name or "down_proj" in name or "norm" in name
            tensors[name] = tensor[order] if writes else tensor[:, order]

    return _with_tensors(target, into, edit)


def layer_ids(draft: Path) -> list[int]:
    config = json.loads((draft / CONFIG).read_text(encoding="utf-8"))
    ids: list[int] = config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    return ids


def _with_layer_ids(draft: Path, into: Path, ids: list[int]) -> Path:
    def edit(config: Config) -> None:
        config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = ids

    return _with_config(draft, into, edit)


def _with_fc_chunks(draft: Path, into: Path, order: tuple[int, ...]) -> Path:
    def edit(tensors: Tensors) -> None:
        import torch

        chunks = tensors["fc.weight"].chunk(len(order), dim=1)
        tensors["fc.weight"] = torch.cat([chunks[place] for place in order], dim=1)

    return _with_tensors(draft, into, edit)


def _with_config(draft: Path, into: Path, edit: Callable[[Config], None]) -> Path:
    return _edit_config(unchanged(draft, into), edit)


def _edit_config(folder: Path, edit: Callable[[Config], None]) -> Path:
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    edit(config)
    (folder / CONFIG).write_text(json.dumps(config, indent=1), encoding="utf-8")
    return folder


def _with_tensors(draft: Path, into: Path, edit: Callable[[Tensors], None]) -> Path:
    from safetensors import safe_open
    from safetensors.torch import save_file

    unchanged(draft, into)
    with safe_open(draft / WEIGHTS, framework="pt") as weights:
        metadata = weights.metadata()
        tensors = {name: weights.get_tensor(name) for name in weights.keys()}  # noqa: SIM118
    edit(tensors)
    packed = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(packed, into / WEIGHTS, metadata=metadata)
    return into


def _places(tensor: Any) -> Any:
    import torch

    return torch.arange(len(tensor))
