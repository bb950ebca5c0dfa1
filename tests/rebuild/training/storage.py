"""Writing a trained network as a model folder, and loading a folder back into plain PyTorch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from tests.rebuild.training.network import Draft, Shape, Target

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"


def save_folder(
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str],
) -> None:
    """Write ``config.json`` and ``model.safetensors``; the same input gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    packed = _with_sorted_header(save(contiguous, metadata={"format": "pt", **metadata}))
    (folder / WEIGHTS_FILE).write_bytes(packed)
    (folder / CONFIG_FILE).write_text(json.dumps(dict(config), indent=1) + "\n", encoding="utf-8")


def half_precision(network: nn.Module) -> dict[str, Tensor]:
    """The network's parameters in bfloat16, the precision in which the pair is served."""
    return {name: tensor.to(torch.bfloat16) for name, tensor in network.state_dict().items()}


def load_target(folder: Path) -> Target:
    """The target in ``folder``, bfloat16 weights in float32 arithmetic, frozen."""
    config = read_config(folder)
    target = Target(Shape.from_config(config))
    _load(target, load_file(folder / WEIGHTS_FILE))
    return target


def load_draft(folder: Path) -> tuple[Draft, Tensor]:
    """The draft in ``folder``, frozen, and the target's ids of its tokens [draft vocabulary].

    Needs the tensors of an EAGLE-3 checkpoint with a reduced vocabulary: ``d2t[i]`` is the
    difference between the target's and the draft's id.
    """
    config = read_config(folder)
    tensors = load_file(folder / WEIGHTS_FILE)
    tensors.pop("t2d", None)
    offsets = tensors.pop("d2t")
    shape = Shape.from_config(config)
    num_aux = tensors["fc.weight"].shape[1] // shape.hidden_size
    draft = Draft(shape, config["draft_vocab_size"], num_aux)
    _load(draft, tensors)
    return draft, offsets + torch.arange(len(offsets))


def read_config(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    return config


def _load(network: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    network.eval()
    network.requires_grad_(False)


def _with_sorted_header(packed: bytes) -> bytes:
    """Put the metadata in a fixed order: safetensors 0.8 writes it in that of a hash map,
    which differs between two processes, and with it the file's sha256."""
    length = int.from_bytes(packed[:8], "little")
    header = json.loads(packed[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    encoded = json.dumps(header, separators=(",", ":")).encode("utf-8")
    encoded += b" " * (-len(encoded) % 8)  # the data begins at a multiple of eight bytes
    return len(encoded).to_bytes(8, "little") + encoded + packed[8 + length :]
