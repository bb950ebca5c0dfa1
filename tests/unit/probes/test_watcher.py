"""The observers on real torch modules that keep their residual the way SGLang does."""

from __future__ import annotations

import builtins
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from draftgate.catalog.spec import EMBEDDING
from draftgate.errors import ProbeError
from draftgate.preflight.capture import FINAL_NORM
from draftgate.probes.observe import Observation, armed, read_observation

torch = pytest.importorskip("torch")

ROWS = 24


def prefill(target: Any, draft: Any, batch: Any, rows: int = ROWS, final: bool = False) -> None:
    """What a server does with a prompt: the target's pass, then the draft's over what it captured.

    `final`: hand over the target's normed output instead, as the algorithm EAGLE does.
    """
    ids = torch.arange(rows) * 5 % 128
    with torch.inference_mode():
        out = target(ids, None, batch("EXTEND"))
        hidden, captured = out if isinstance(out, tuple) else (out, None)
        if draft is None:
            return
        if isinstance(captured, list):
            captured = torch.cat(captured, dim=-1)
        fed = hidden if final else captured
        draft(ids, None, batch("EXTEND", fed))
        draft(ids[:4], None, batch("DRAFT_EXTEND_V2", fed[:4].clone()))
        draft(ids[:1], None, batch("DECODE", hidden[:1].clone()))


def observed(target: Any, draft: Any, batch: Any, folder: Path, final: bool = False) -> Observation:
    prefill(target, draft, batch, rows=3, final=final)  # the server's warm-up request
    with armed(folder):
        prefill(target, draft, batch, final=final)
    return read_observation(folder)


@pytest.mark.parametrize("way", ["call", "keywords", "fused"])
def test_widths_and_sources_of_a_right_pair(
    models: Any, batch: Any, attached: Any, way: str
) -> None:
    target, draft = models.Target((2, 4, 6), way), models.Draft()
    seen = observed(target, draft, batch, attached(target, draft))
    assert seen.layer_ids == (1, 3, 5)
    assert [s.distance for s in seen.fed] == [0.0, 0.0, 0.0]
    assert seen.stream_gap is not None
    assert seen.stream_gap > 0.05
    assert all((s.runner_up_distance or 0) >= seen.stream_gap for s in seen.fed)
    assert (seen.target_class, seen.target_hidden, seen.layers) == ("Target", 64, 8)
    assert (seen.rows, seen.captured) == (ROWS, 192)
    assert (seen.draft_class, seen.fc_in, seen.fc_out) == ("Draft", 192, 64)
    assert (seen.fed_width_prefill, seen.fed_widths_extend) == (192, (192,))
    assert seen.draft_step_widths == (64,)
    assert seen.unobserved == ()
    assert (seen.ranks, seen.ranks_agree) == (1, True)
    assert seen.fc_in is not None


def test_the_embedding_is_a_source(models: Any, batch: Any, attached: Any) -> None:
    target, draft = models.Target((0, 2, 4)), models.Draft()
    seen = observed(target, draft, batch, attached(target, draft))
    assert seen.layer_ids == (EMBEDDING, 1, 3)


def test_a_packed_capture_has_the_same_width(models: Any, batch: Any, attached: Any) -> None:
    target, draft = models.Target((2, 4, 6)), models.Draft()
    target.packed = True
    seen = observed(target, draft, batch, attached(target, draft))
    assert (seen.captured, seen.layer_ids) == (192, (1, 3, 5))


def test_the_algorithm_eagle_on_an_eagle3_draft_is_said(
    models: Any, batch: Any, attached: Any
) -> None:
    target, draft = models.Target(), models.Draft()
    seen = observed(target, draft, batch, attached(target, draft), final=True)
    assert seen.fc_in is None
    assert (seen.fc_in, seen.fc_out, seen.captured) == (None, None, None)
    assert seen.fed_width_prefill == 64
    # The draft added into the buffer it was fed: only a sketch taken before the pass can match.
    assert seen.layer_ids == (FINAL_NORM,)
    assert seen.fed[0].distance == 0.0


def test_a_norm_before_fc_does_not_hide_the_sources(models: Any, batch: Any, attached: Any) -> None:
    target, draft = models.Target((2, 4, 6)), models.Draft(norm_before_fc=True)
    seen = observed(target, draft, batch, attached(target, draft))
    assert (seen.fc_in, seen.layer_ids) == (192, (1, 3, 5))


def test_a_column_parallel_fc_reports_its_full_output(
    models: Any, batch: Any, attached: Any
) -> None:
    class ColumnParallel(torch.nn.Linear):  # type: ignore[misc, name-defined]
        gather_output = False
        tp_size = 8

        def forward(self, x: Any) -> Any:
            return super().forward(x), None

    class Sharded(models.Draft):  # type: ignore[misc, name-defined]
        def forward(self, ids: Any, positions: Any, forward_batch: Any) -> Any:
            states = forward_batch.spec_info.hidden_states
            hidden = self.fc(states)[0] if states.shape[-1] != 64 else states
            return hidden, [hidden]

    target, draft = models.Target((2, 4, 6)), Sharded()
    draft.fc = ColumnParallel(192, 8, bias=False)
    seen = observed(target, draft, batch, attached(target, draft))
    assert (seen.fc_in, seen.fc_out) == (192, 64)


def test_a_layer_that_bypasses_its_norm_is_not_observed_and_never_guessed(
    models: Any, batch: Any, attached: Any
) -> None:
    target, draft = models.Target((2, 4, 6), way="unseen"), models.Draft()
    seen = observed(target, draft, batch, attached(target, draft))
    assert seen.unobserved == (0, 1, 2, 3, 4, 5, 6)
    assert seen.layer_ids == (None, None, None)
    assert {s.verdict for s in seen.fed} == {"unmatched"}


def test_a_norm_that_runs_twice_in_a_pass_is_not_observed(
    models: Any, batch: Any, attached: Any
) -> None:
    target, draft = models.Target((2, 4, 6)), models.Draft()
    target.layers[4].input_layernorm = target.layers[3].input_layernorm
    seen = observed(target, draft, batch, attached(target, draft))
    assert seen.unobserved == (2, 3)
    assert seen.layer_ids == (1, None, 5)


def test_dummy_weights_leave_exact_copies_certain(models: Any, batch: Any, attached: Any) -> None:
    """Load format dummy: every layer changes but a few last bits of the bfloat16 stream."""
    target, draft = models.Target((2, 4, 6)).bfloat16(), models.Draft().bfloat16()
    for parameter in target.parameters():
        torch.nn.init.uniform_(parameter, -1e-3, 1e-3)
    seen = observed(target, draft, batch, attached(target, draft))
    assert seen.stream_gap is not None
    assert 0 < seen.stream_gap < 1e-3
    assert seen.layer_ids == (1, 3, 5)


def test_layers_that_add_nothing_leave_no_certain_source(
    models: Any, batch: Any, attached: Any
) -> None:
    target, draft = models.Target((2, 4, 6)), models.Draft()
    for layer in target.layers:
        torch.nn.init.zeros_(layer.attention.weight)
        torch.nn.init.zeros_(layer.mlp.weight)
    seen = observed(target, draft, batch, attached(target, draft))
    assert seen.stream_gap == 0.0
    assert {s.verdict for s in seen.fed} == {"ambiguous"}
    assert seen.layer_ids == (None, None, None)


def test_a_server_without_a_draft(models: Any, batch: Any, attached: Any) -> None:
    target = models.Target()
    seen = observed(target, None, batch, attached(target))
    assert (seen.target_hidden, seen.layers, seen.captured) == (64, 8, None)
    assert (seen.draft_class, seen.fed_width_prefill, seen.fed) == (None, None, ())


def test_the_longest_prefill_counts_not_a_health_check(
    models: Any, batch: Any, attached: Any
) -> None:
    target, draft = models.Target((2, 4, 6)), models.Draft()
    folder = attached(target, draft)
    prefill(target, draft, batch)
    with armed(folder):
        prefill(target, draft, batch, rows=4)
        prefill(target, draft, batch, rows=30)
        prefill(target, draft, batch, rows=4)
    assert read_observation(folder).rows == 30


def test_idle_a_pass_costs_one_look_and_touches_no_file(
    models: Any, batch: Any, attached: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = models.Target((2, 4, 6))
    folder = attached(target)
    ids = torch.arange(8)
    target(ids, None, batch("EXTEND"))
    touched: list[str] = []
    for module, name in ((os, "access"), (os, "stat"), (os, "open"), (builtins, "open")):
        real = getattr(module, name)

        def counting(path: Any, *args: Any, _n: str = name, _r: Any = real, **kwargs: Any) -> Any:
            if str(path).startswith(str(folder)):
                touched.append(f"{_n} {Path(path).name}")
            return _r(path, *args, **kwargs)

        monkeypatch.setattr(module, name, counting)
    for mode in ("EXTEND", "TARGET_VERIFY", "DECODE"):
        target(ids, None, batch(mode))
    assert touched == ["access armed"] * 3
    assert not any(layer.input_layernorm._forward_hooks for layer in target.layers)


def test_disarming_takes_every_tap_off(models: Any, batch: Any, attached: Any) -> None:
    target, draft = models.Target((2, 4, 6)), models.Draft()
    folder = attached(target, draft)
    prefill(target, draft, batch)
    with armed(folder):
        prefill(target, draft, batch)
        norm = target.layers[3].input_layernorm
        assert norm._forward_hooks
        assert "forward_with_allreduce_fusion" in norm.__dict__
    prefill(target, draft, batch)
    norms = [layer.input_layernorm for layer in target.layers] + [target.norm]
    assert not any(n._forward_hooks or "forward_with_allreduce_fusion" in vars(n) for n in norms)
    assert not draft.fc._forward_hooks


def test_what_the_models_compute_is_the_same_armed_or_not(
    models: Any, batch: Any, attached: Any
) -> None:
    target = models.Target((2, 4, 6), "fused")
    folder = attached(target)
    ids = torch.arange(9)
    with torch.inference_mode():
        target(ids, None, batch("EXTEND"))
        idle, _ = target(ids, None, batch("EXTEND"))
        with armed(folder):
            watched, _ = target(ids, None, batch("EXTEND"))
    assert torch.equal(idle, watched)


def test_a_second_run_starts_afresh(models: Any, batch: Any, attached: Any) -> None:
    target, draft = models.Target((2, 4, 6)), models.Draft()
    folder = attached(target, draft)
    prefill(target, draft, batch)
    with armed(folder) as first:
        prefill(target, draft, batch, rows=30)
    with armed(folder) as second:  # no idle pass in between
        prefill(target, draft, batch, rows=10)
    assert first != second
    assert read_observation(folder).rows == 10
    assert [p.name.split(".")[0] for p in folder.glob("*.jsonl")] == [second]


def test_the_observers_own_error_leaves_the_server_alone_and_is_told(
    models: Any,
    batch: Any,
    attached: Any,
    in_server: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target, draft = models.Target((2, 4, 6)), models.Draft()
    folder = attached(target, draft)
    prefill(target, draft, batch)

    def broken(states: Any) -> Any:
        raise ValueError("no such kernel")

    watcher = __import__("draftgate_probes.watcher", fromlist=["sketch"])
    monkeypatch.setattr(watcher, "sketch", broken)
    with armed(folder):
        prefill(target, draft, batch)
    with pytest.raises(ProbeError, match=r"observer of the target failed.*ValueError: no such ker"):
        read_observation(folder)


def test_records_are_bounded(models: Any, batch: Any, attached: Any) -> None:
    target = models.Target(depth=1)
    folder = attached(target)
    ids = torch.arange(1)
    with torch.inference_mode(), armed(folder) as run:
        for _ in range(520):
            target(ids, None, batch("DECODE"))
    (file,) = folder.glob(f"{run}.*.jsonl")
    assert len(file.read_text().splitlines()) == 512
