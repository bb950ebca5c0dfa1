from __future__ import annotations

import math
import random

import pytest
from draftgate.catalog.spec import EMBEDDING
from draftgate.preflight.capture import FINAL_NORM
from draftgate.probes.sources import (
    Sketch,
    distance,
    match,
    match_all,
    stream_gap,
)


def random_sketch(seed: int, rows: int = 4, width: int = 8) -> list[list[float]]:
    rng = random.Random(seed)
    return [[rng.gauss(0, 1) for _ in range(width)] for _ in range(rows)]


def moved(sketch: Sketch, by: float) -> list[list[float]]:
    """`sketch` with every row moved away by the fraction `by` of its length."""
    return [[x * (1 + by) for x in row] for row in sketch]


STREAMS = {layer: random_sketch(layer + 10) for layer in (EMBEDDING, 0, 1, 2, 3, FINAL_NORM)}


def test_equal_sketches_are_at_distance_zero_and_unrelated_ones_far() -> None:
    assert distance(STREAMS[1], STREAMS[1]) == 0.0
    assert distance(STREAMS[1], STREAMS[2]) > 0.5


def test_distance_is_relative_to_the_longer_row() -> None:
    assert distance([[3.0, 4.0]], [[3.0, 4.0 + 10.0]]) == pytest.approx(10 / math.hypot(3, 14))
    assert distance([[3000.0, 4000.0]], [[3000.0, 14000.0]]) == pytest.approx(
        distance([[3.0, 4.0]], [[3.0, 14.0]])
    )


def test_one_overlarge_first_row_does_not_decide() -> None:
    sink = [1e6] * 8
    a, b = [sink, *STREAMS[1]], [sink, *STREAMS[2]]
    assert distance(a, b) > 0.5


def test_rows_that_are_not_finite_never_match() -> None:
    assert distance([[math.nan, 1.0]], [[math.nan, 1.0]]) == math.inf
    assert match(0, [[math.nan] * 8] * 4, STREAMS).verdict == "unmatched"


def test_sketches_of_different_rows_never_match() -> None:
    assert distance(STREAMS[1][:3], STREAMS[1]) == math.inf
    assert distance([], []) == math.inf


def test_two_zero_rows_are_equal() -> None:
    assert distance([[0.0, 0.0]], [[0.0, 0.0]]) == 0.0


def test_exact_sources_are_named_in_the_order_of_the_chunks() -> None:
    found = match_all([STREAMS[EMBEDDING], STREAMS[1], STREAMS[3]], STREAMS)
    assert [(s.chunk, s.verdict, s.layer, s.distance) for s in found] == [
        (0, "matched", EMBEDDING, 0.0),
        (1, "matched", 1, 0.0),
        (2, "matched", 3, 0.0),
    ]


def test_permuted_chunks_come_out_permuted() -> None:
    found = match_all([STREAMS[3], STREAMS[EMBEDDING], STREAMS[1]], STREAMS)
    assert [s.layer for s in found] == [3, EMBEDDING, 1]


def test_rounding_is_tolerated_and_reported() -> None:
    found = match(0, moved(STREAMS[2], 0.01), STREAMS)
    assert (found.verdict, found.layer) == ("matched", 2)
    assert found.distance == pytest.approx(0.01 / 1.01)


def test_a_chunk_farther_than_the_tolerance_is_unmatched_but_names_the_nearest() -> None:
    found = match(0, moved(STREAMS[2], 0.05), STREAMS)
    assert (found.verdict, found.layer) == ("unmatched", 2)


def test_twin_sources_are_ambiguous() -> None:
    streams = {**STREAMS, 7: STREAMS[2]}
    found = match(0, STREAMS[2], streams)
    assert (found.verdict, found.layer, found.runner_up) == ("ambiguous", 2, 7)
    assert (found.distance, found.runner_up_distance) == (0.0, 0.0)


def test_near_twins_are_ambiguous_to_a_rounded_copy() -> None:
    streams = {**STREAMS, 7: moved(STREAMS[2], 0.003)}
    found = match(0, moved(STREAMS[2], 0.001), streams)
    assert (found.verdict, found.layer, found.runner_up) == ("ambiguous", 2, 7)


@pytest.mark.parametrize("apart", [0.01, 1e-5])
def test_an_exact_copy_beats_a_neighbour_within_the_tolerance(apart: float) -> None:
    streams = {**STREAMS, 7: moved(STREAMS[2], apart)}
    found = match(0, STREAMS[2], streams)
    assert (found.verdict, found.layer, found.runner_up) == ("matched", 2, 7)


def test_two_sources_nearly_as_far_are_ambiguous_though_both_within_the_tolerance() -> None:
    streams = {1: STREAMS[1], 2: moved(STREAMS[1], 0.019)}
    assert match(0, moved(STREAMS[1], 0.008), streams).verdict == "ambiguous"


def test_a_single_stream_has_no_runner_up() -> None:
    found = match(0, STREAMS[1], {1: STREAMS[1]})
    assert (found.verdict, found.runner_up, found.runner_up_distance) == ("matched", None, None)


def test_the_gap_is_that_of_the_nearest_neighbours() -> None:
    streams = {**STREAMS, 2: moved(STREAMS[1], 0.1)}
    assert stream_gap(streams) == pytest.approx(0.1 / 1.1)


def test_layers_that_are_no_neighbours_and_the_final_norm_do_not_count_for_the_gap() -> None:
    streams = {1: STREAMS[1], 3: STREAMS[1], FINAL_NORM: STREAMS[1]}
    assert stream_gap(streams) is None


def test_identical_layers_have_no_gap_and_no_certain_source() -> None:
    streams = dict.fromkeys(range(EMBEDDING, 4), STREAMS[1])
    assert stream_gap(streams) == 0.0
    assert {s.verdict for s in match_all([STREAMS[1]] * 3, streams)} == {"ambiguous"}
