"""What the observers inside a real server would write: here of layers that are made up."""

from __future__ import annotations

import base64
import json
import os
import random
from array import array
from pathlib import Path
from typing import Any

PROJECTIONS = 64
unwritten: dict[int, list[tuple[Path, str]]] = {}
"""Times of steps by data-parallel rank: each file and the line that goes there."""


def observe(args: dict[str, Any], rows: int, dp_rank: int) -> None:
    """Write the records of one prefill and one verify step, if this server is being observed: those
    of each tensor-parallel rank of the data-parallel one that served the request."""
    hooks = args.get("forward_hooks")
    folder = Path(hooks[0]["config"]["folder"]) if hooks else None
    if folder is None or not (folder / "armed").exists():
        return
    run = (folder / "armed").read_text()
    target = json.loads((Path(args["model_path"]) / "config.json").read_text())
    draft = json.loads((Path(args["speculative_draft_model_path"]) / "config.json").read_text())
    hidden, layers = target["hidden_size"], target["num_hidden_layers"]
    fed = [layer + 1 for layer in draft["eagle_config"]["eagle_aux_hidden_state_layer_ids"]]
    names = [*map(str, range(layers)), "final", "normed"]
    sketches = {name: _sketch(name, rows) for name in names}
    chunks = {f"chunk{place}": sketches[str(layer)] for place, layer in enumerate(fed)}
    wide = hidden * len(fed)
    target_pass = {"role": "target", "hidden": hidden, "layers": layers, "captured": wide}
    prefill = {"sketched_rows": dict.fromkeys(names, rows), "sketches": sketches}
    fed_prefill = {"sketched_rows": dict.fromkeys(chunks, rows), "sketches": chunks}
    passes = [
        {"mode": "EXTEND"} | target_pass | prefill,
        {"mode": "EXTEND"} | _draft_pass(rows, wide, hidden) | fed_prefill,
        {"mode": "DECODE"} | _draft_pass(1, hidden, None),
        {"mode": "TARGET_VERIFY"} | target_pass,
        {"mode": "DRAFT_EXTEND"} | _draft_pass(4, wide, hidden),
    ]
    for head in _heads(args, run, dp_rank):
        lines = [
            json.dumps({**head, "seq": seq, "model": "LlamaModel", "sketches": {}, **one})
            for seq, one in enumerate(passes)
        ]
        (folder / f"{run}.{head['pid']}.jsonl").write_text("\n".join(lines) + "\n")


def time_steps(args: dict[str, Any], count: int, dp_rank: int) -> None:
    """Time `count` decode steps, all alike, if steps are being timed; if they are no longer, write
    what this data-parallel rank timed."""
    hooks = args.get("forward_hooks")
    folder = Path(hooks[-1]["config"]["folder"]) / "phases" if hooks else None
    if folder is None or not (folder / "armed").exists():
        for path, line in unwritten.pop(dp_rank, ()):
            with path.open("a") as file:
                file.write(line)
        return
    run = (folder / "armed").read_text()
    speculating = args.get("speculative_algorithm")
    times = {"draft": 0.5, "verify": 2.0, "extend": 0.75} if speculating else {"decode": 1.5}
    steps = [[1, 4.0 if step else None, *times.values()] for step in reversed(range(count))]
    record: dict[str, Any] = {"seq": 0, "role": "scheduler", "mode": "DECODE", "clock": "host"}
    record |= {"phases": list(times), "steps": steps}
    for head in _heads(args, run, dp_rank):
        path = folder / f"{run}.{head['pid']}.jsonl"
        unwritten.setdefault(dp_rank, []).append((path, json.dumps({**head, **record}) + "\n"))


def _heads(args: dict[str, Any], run: str, dp_rank: int) -> list[dict[str, Any]]:
    """What each tensor-parallel rank's records begin with; a rank counts within its replica."""
    world = int(args["tp_size"])
    first = os.getpid() + dp_rank * world
    return [{"run": run, "pid": first + n, "rank": n, "world": world} for n in range(world)]


def _draft_pass(rows: int, wide: int, out: int | None) -> dict[str, Any]:
    """A pass of the draft; with `out`, through its fc."""
    fc = {"in": [rows, wide], "out": [rows, out]} if out else None
    return {"role": "draft", "fed": [rows, wide], "fc": fc}


def _sketch(name: str, rows: int) -> str:
    """Made-up values, the same for the same layer."""
    source = random.Random(name)
    values = array("f", [source.gauss(0, 1) for _ in range(rows * PROJECTIONS)])
    return base64.b64encode(values.tobytes()).decode()
