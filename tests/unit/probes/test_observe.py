"""Reading what the observers of several processes wrote, whole or cut."""

from __future__ import annotations

import base64
import json
from array import array
from pathlib import Path
from typing import Any

import pytest
from draftgate.errors import ProbeError
from draftgate.probes.observe import Observation, armed, read_observation

LAYERS, ROWS = 4, 2


def sketch(value: float) -> str:
    """ROWS rows of 64 projections: `value`, then its negative."""
    return base64.b64encode(array("f", [value] * 64 + [-value] * 64).tobytes()).decode()


def passes(sources: tuple[float, ...] = (2.0, 3.0, 4.0), **draft: Any) -> list[dict[str, Any]]:
    """A prefill whose streams (0 to 3, final, normed) have the values 1 to 6, and draft steps."""
    names = [str(i) for i in range(LAYERS)] + ["final", "normed"]
    chunks = {f"chunk{i}": sketch(value) for i, value in enumerate(sources)}
    fed = len(sources) * 8
    return [
        {
            "role": "target",
            "model": "LlamaModel",
            "mode": "EXTEND",
            "hidden": 8,
            "layers": LAYERS,
            "captured": fed,
            "sketched_rows": dict.fromkeys(names, ROWS),
            "sketches": {name: sketch(i + 1.0) for i, name in enumerate(names)},
        },
        {
            "role": "draft",
            "model": "LlamaModel",
            "mode": "EXTEND",
            "fed": [ROWS, fed],
            "fc": {"in": [ROWS, fed], "out": [ROWS, 8]},
            "sketched_rows": dict.fromkeys(chunks, ROWS),
            "sketches": chunks,
            **draft,
        },
        {"role": "draft", "model": "LlamaModel", "mode": "DECODE", "fed": [1, 8], "fc": None},
        {
            "role": "draft",
            "model": "LlamaModel",
            "mode": "DRAFT_EXTEND_V2",
            "fed": [4, fed],
            "fc": {"in": [4, fed], "out": [4, 8]},
        },
    ]


def write(folder: Path, run: str, records: list[dict[str, Any]], rank: int = 0) -> Path:
    path = folder / f"{run}.{1000 + rank}.jsonl"
    head = {"run": run, "pid": 1000 + rank, "rank": rank, "world": 2}
    path.write_text("".join(json.dumps(head | record) + "\n" for record in records))
    return path


def after_arming(folder: Path) -> str:
    with armed(folder) as run:
        pass
    return run


def test_arming_writes_the_run_and_disarming_removes_it(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    with armed(folder) as run:
        assert (folder / "armed").read_text() == run
    assert not (folder / "armed").exists()


def test_an_error_while_armed_disarms(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="request"), armed(tmp_path):
        raise RuntimeError("request")
    assert not (tmp_path / "armed").exists()


def test_a_prefill_and_its_steps(tmp_path: Path) -> None:
    write(tmp_path, after_arming(tmp_path), passes())
    seen = read_observation(tmp_path)
    assert isinstance(seen, Observation)
    assert seen.layer_ids == (0, 1, 2)
    assert [s.distance for s in seen.fed] == [0.0] * 3
    assert (seen.target_hidden, seen.layers, seen.rows, seen.captured) == (8, LAYERS, ROWS, 24)
    assert (seen.fc_in, seen.fc_out, seen.fed_width_prefill) == (24, 8, 24)
    assert (seen.draft_step_widths, seen.fed_widths_extend) == ((8,), (24,))


def test_chunks_in_another_order(tmp_path: Path) -> None:
    write(tmp_path, after_arming(tmp_path), passes((4.0, 1.0, 5.0)))
    assert read_observation(tmp_path).layer_ids == (2, -1, 3)


def test_ranks_that_agree(tmp_path: Path) -> None:
    run = after_arming(tmp_path)
    write(tmp_path, run, passes(), rank=1)
    write(tmp_path, run, passes(), rank=0)
    seen = read_observation(tmp_path)
    assert (seen.ranks, seen.ranks_agree) == (2, True)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(passes((2.0, 3.0, 5.0)), id="another source"),
        pytest.param(passes(fc=None), id="fc skipped"),
        pytest.param(passes()[:2], id="no steps"),
    ],
)
def test_ranks_that_disagree(tmp_path: Path, other: list[dict[str, Any]]) -> None:
    run = after_arming(tmp_path)
    write(tmp_path, run, other, rank=1)
    write(tmp_path, run, passes(), rank=0)
    seen = read_observation(tmp_path)
    assert (seen.ranks, seen.ranks_agree) == (2, False)
    assert seen.layer_ids == (0, 1, 2)


def test_a_process_that_served_no_prefill_has_no_say(tmp_path: Path) -> None:
    run = after_arming(tmp_path)
    write(tmp_path, run, passes(), rank=0)
    write(tmp_path, run, passes()[2:], rank=1)
    assert read_observation(tmp_path).ranks == 1


@pytest.mark.parametrize("rank", [0, 1])
def test_any_one_data_parallel_rank_may_serve_the_request(tmp_path: Path, rank: int) -> None:
    """A replica of rank 0 as well, or with DP attention another rank of the same world."""
    run = after_arming(tmp_path)
    path = write(tmp_path, run, passes(), rank=rank)
    path.rename(path.with_name(f"{run}.999.jsonl"))
    write(tmp_path, run, [{**passes()[0], "sketched_rows": {"normed": 0}}], rank=0)
    seen = read_observation(tmp_path)
    assert (seen.ranks, seen.ranks_agree, seen.layer_ids) == (1, True, (0, 1, 2))


def test_a_last_line_still_being_written_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, after_arming(tmp_path), passes())
    text = path.read_text()
    path.write_text(text + text[: len(text) // 3].rpartition("\n")[2])
    assert read_observation(tmp_path).layer_ids == (0, 1, 2)


def test_a_broken_line_elsewhere_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = write(tmp_path, after_arming(tmp_path), passes())
    path.write_text("{broken\n" + path.read_text())
    with pytest.raises(ProbeError, match=r"jsonl:1 is no record"):
        read_observation(tmp_path)


def test_the_draft_prefilled_with_other_rows_is_an_error(tmp_path: Path) -> None:
    records = passes()
    records[1]["sketched_rows"] = dict.fromkeys(records[1]["sketched_rows"], ROWS + 1)
    write(tmp_path, after_arming(tmp_path), records)
    with pytest.raises(ProbeError, match="cannot be paired"):
        read_observation(tmp_path)


def test_a_draft_prefill_that_was_not_seen_leaves_its_fields_empty(tmp_path: Path) -> None:
    records = passes()
    write(tmp_path, after_arming(tmp_path), [records[0], *records[2:]])
    seen = read_observation(tmp_path)
    assert (seen.draft_class, seen.fc_in, seen.fed_width_prefill, seen.fed) == (
        None,
        None,
        None,
        (),
    )
    assert seen.draft_step_widths == (8,)


def test_records_of_an_earlier_run_are_not_read(tmp_path: Path) -> None:
    write(tmp_path, after_arming(tmp_path), passes())
    run = after_arming(tmp_path)
    write(tmp_path, "0123456789ab", passes())  # a pass of the earlier run that ended late
    with pytest.raises(ProbeError, match="passes seen: none"):
        read_observation(tmp_path)
    write(tmp_path, run, passes((1.0, 2.0, 3.0)))
    assert read_observation(tmp_path).layer_ids == (-1, 0, 1)


def test_a_folder_never_armed(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="never armed"):
        read_observation(tmp_path)


def test_no_prefill_says_what_was_seen_and_what_to_do(tmp_path: Path) -> None:
    write(tmp_path, after_arming(tmp_path), passes()[2:])
    with pytest.raises(ProbeError, match=r"passes seen: DECODE, DRAFT_EXTEND_V2(?s:.*)prefill gra"):
        read_observation(tmp_path)
