from __future__ import annotations

import math
import re

import pytest
from draftgate.gate.acceptance import judge_same_acceptance
from draftgate.gate.graphs import (
    judge_captures,
    judge_graph_use,
    judge_graphs,
    judge_same_states,
)
from draftgate.gate.hidden_states import (
    judge_fc_width,
    judge_layers,
    judge_returned_width,
    judge_step_widths,
)
from draftgate.measure.record import Layers, Widths
from draftgate.measure.samples import AcceptanceSample, PromptSample
from draftgate.measure.verdict import Status

from tests.specs import spec_of

KIMI = Widths(expected=21504, fc_in=21504, returned=21504, draft_steps=(7168,))


def steps(widths, hidden, *, graphs=False, num_steps=3):
    return judge_step_widths(widths, hidden, graphs=graphs, num_steps=num_steps)


def test_right_widths():
    assert judge_fc_width(KIMI, 7168).status is Status.PASS
    assert judge_returned_width(KIMI).status is Status.PASS
    assert steps(KIMI, 7168).status is Status.PASS


def test_fc_skipped_at_prefill_names_the_algorithm():
    verdict = judge_fc_width(Widths(21504, None, 7168, (7168,)), 7168)
    assert verdict.status is Status.FAIL
    assert "fc never ran at prefill: it was fed 7168-wide states instead of 21504" in str(verdict)
    assert "EAGLE3" in str(verdict)


@pytest.mark.parametrize(
    ("judge", "words"),
    [
        (lambda: judge_fc_width(Widths(21504, 14336), 7168), "fed 14336-wide states"),
        (lambda: judge_returned_width(Widths(21504, 21504, 7168)), "returned 7168-wide"),
        (lambda: judge_returned_width(Widths(21504, 21504, None)), "returned None-wide"),
        (lambda: steps(Widths(192, 192, 192, (64, 192)), 64), "fed 64, 192-wide"),
        (lambda: steps(Widths(192, 192, 192, ()), 64), "took no step of its own"),
    ],
)
def test_wrong_widths(judge, words):
    verdict = judge()
    assert verdict.status is Status.FAIL
    assert words in verdict.reasons[0]


def test_steps_that_cannot_be_seen_are_not_judged():
    unseen = Widths(192, 192, 192, ())
    assert steps(unseen, 64, graphs=True).status is Status.NOT_GATED
    assert steps(unseen, 64, num_steps=1).status is Status.NOT_GATED
    assert steps(Widths(192, 192, 192, (192,)), 64, graphs=True).status is Status.FAIL


def layers(expected, fed, ranks=1, *, agree=True):
    said_by = "weights" if expected else None
    return Layers(expected, fed, tuple(0.0 for _ in fed), said_by, ranks, agree)


def test_a_config_that_is_taken_at_its_word_says_so():
    told = Layers((1, 3, 5), (1, 3, 5), (0.0, 0.0, 0.0), "config", 1, True)
    assert "by its config alone: set trained_on" in judge_layers(told, ranks=1).reasons[0]


def test_every_rank_is_seen_and_agrees():
    right = (1, 3, 5)
    assert judge_layers(layers(right, right, 8), ranks=8).status is Status.PASS
    assert judge_layers(layers(right, right, 7), ranks=8).status is Status.FAIL
    assert judge_layers(layers(right, right, 8, agree=False), ranks=8).status is Status.FAIL


@pytest.mark.parametrize(
    ("expected", "fed", "status", "words"),
    [
        ((1, 3, 5), (1, 3, 5), Status.PASS, "fed what it was trained on: [1, 3, 5]"),
        ((-1, 1, 3), (-1, 1, 3), Status.PASS, "[embedding, 1, 3]"),
        ((-1, 1, 3), (1, 3, 5), Status.FAIL, "trained on [embedding, 1, 3] and is fed [1, 3, 5]"),
        ((1, 3, 5), (5, 1, 3), Status.FAIL, "trained on [1, 3, 5] and is fed [5, 1, 3]"),
        ((1, 3, 5), (-2,), Status.FAIL, "fed [final norm], the target's last state"),
        (None, (1, 3, 5), Status.NOT_COMPARABLE, "set trained_on"),
    ],
)
def test_layers(expected, fed, status, words):
    verdict = judge_layers(layers(expected, fed), ranks=1)
    assert verdict.status is status
    assert words in verdict.reasons[0]


@pytest.mark.parametrize(
    ("apart", "status", "words"),
    [
        (0.4, Status.FAIL, "[1, ?, 5]: a chunk matches no layer"),
        (0.0, Status.NOT_COMPARABLE, "more than one layer of the target holds the same state"),
    ],
)
def test_a_chunk_like_no_layer_is_a_fault_and_one_like_several_is_not_told(apart, status, words):
    seen = Layers((1, 3, 5), (1, None, 5), (0.0, apart, 0.0), "profile", 1, True)
    verdict = judge_layers(seen, ranks=1)
    assert verdict.status is status
    assert words in verdict.reasons[0]


OLD = "[2025-10-05 10:00:00 TP0] Decode batch. #running-req: 1, accept len: 2.17, cuda graph: True,"
NEW = "[2026-08-05 10:00:00 TP0] Decode batch, #running-req: 1, cuda graph: False, gen throughput"
CPU = "[2026-08-05 10:00:00] Decode batch, #running-req: 1, cpu graph: False, gen throughput: 1"
PREFILL = "[2026-08-05 10:00:00] Prefill batch, #new-seq: 1, cuda graph: False"


@pytest.mark.parametrize(
    ("log", "asked", "status"),
    [
        (f"{OLD}\n{OLD}", True, Status.PASS),
        (f"{PREFILL}\n{OLD}", True, Status.PASS),
        (f"{OLD}\n{NEW}", True, Status.FAIL),
        (NEW, False, Status.PASS),
        (CPU, False, Status.PASS),
        (OLD, False, Status.FAIL),
        (PREFILL, False, Status.FAIL),  # nothing decoded: not observed is not right
    ],
)
def test_graphs_by_the_log(log, asked, status):
    assert judge_graph_use(log, asked=asked).status is status


CAPTURES = """\
[2026-11-29 17:07:26] Capture target verify CUDA graph begin. backend=full, num_tokens_per_req=6, \
bs=[1, 2, 3, 4, 5, 6, 7, 8], avail mem=95.30 GB
[2026-11-29 17:07:27] Capture target verify CUDA graph end. elapsed=1.53 s, mem usage=0.04 GB
[2026-11-29 17:07:27] Capture draft decode CUDA graph begin. backend=full, num_tokens_per_req=1, \
bs=[1, 2, 3, 4, 5, 6, 7, 8], avail mem=95.27 GB
[2026-11-29 17:07:31] Capture draft decode CUDA graph end. elapsed=4.26 s, mem usage=0.04 GB
[2026-11-29 17:07:31] Capture draft extend CUDA graph begin. backend=full, num_tokens_per_req=6, \
bs=[1, 2, 3, 4, 5, 6, 7, 8], avail mem=95.23 GB
"""
"""Of 0.5.16 on an H200."""
PLAIN = """\
[2026-11-29 17:00:00] Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, \
bs=[1, 2, 4, 8], avail mem=95.03 GB
"""
BEFORE = """\
[2026-04-01 10:00:10 TP0] Capture cuda graph begin. This can take up to several minutes. avail
[2026-04-01 10:00:10 TP0] Capture cuda graph bs [1, 2, 4, 8]
[2026-04-01 10:00:12 TP0] Capture draft cuda graph begin. This can take up to several minutes. avail
"""
"""As 0.5.10 to 0.5.13 write it."""
PIECEWISE = "[2026-04-01 10:00:09 TP0] Capture piecewise CUDA graph begin. avail mem=90.00 GB\n"


def without(log: str, words: str) -> str:
    return "".join(line for line in log.splitlines(keepends=True) if words not in line)


@pytest.mark.parametrize(
    ("log", "requests", "words"),
    [
        (CAPTURES, 8, "captured: draft decode, draft extend, target verify; batches up to 8"),
        (without(CAPTURES, "draft extend"), 8, "captured: draft decode, target verify;"),
        (BEFORE, 8, "captured: draft, target; batches up to 8"),
    ],
)
def test_all_that_runs_has_a_graph(log: str, requests: int, words: str) -> None:
    verdict = judge_captures(log, concurrency=requests, draft_steps=True)
    assert verdict.status is Status.PASS
    assert words in verdict.reasons[0]


def test_a_draft_of_one_step_and_no_draft_need_no_graph_of_its_own() -> None:
    assert judge_captures(PLAIN, concurrency=1, draft_steps=False).status is Status.PASS


@pytest.mark.parametrize(
    ("log", "requests", "words"),
    [
        ("", 1, "captured no CUDA graph of the target"),
        (PIECEWISE, 1, "captured no CUDA graph of the target"),
        (without(CAPTURES, "target"), 1, "captured no CUDA graph of the target"),
        (without(CAPTURES, "draft decode"), 1, "of the target and none of the draft"),
        (without(BEFORE, "draft"), 1, "of the target and none of the draft"),
        (CAPTURES, 12, "the largest captured batch is 8, and 12 requests run at once"),
        (BEFORE, 9, "set graph_max_batch = 9"),
    ],
)
def test_what_has_no_graph_is_named(log: str, requests: int, words: str) -> None:
    verdict = judge_captures(log, concurrency=requests, draft_steps=True)
    assert verdict.status is Status.FAIL
    assert words in verdict.reasons[0]


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            NEW,
            "1 of 1 decode lines of the log say 'cuda graph: False'; the spec asks for True, and",
        ),
        (NEW, "the server captured none"),
        (PLAIN + NEW.replace("req: 1", "req: 12"), "batches of 12 ran, and the largest captured"),
    ],
)
def test_why_a_graph_was_not_used(log: str, words: str) -> None:
    assert words in judge_graph_use(log, asked=True).reasons[0]


def of_rank(log: str, mark: str) -> str:
    return re.sub(r"^(\[[\d: -]+)(?: TP0)?\]", rf"\1 {mark}]", log, flags=re.MULTILINE)


USED = NEW.replace("False", "True")


@pytest.mark.parametrize(
    ("log", "statuses", "words"),
    [
        (of_rank(CAPTURES + USED, "DP0") + "\n" + of_rank(CAPTURES + USED, "DP1"), "pppp", "DP1: "),
        (
            of_rank(CAPTURES + USED, "DP0") + "\n" + of_rank(CAPTURES + NEW, "DP1"),
            "pfpp",
            "DP1: 1 of 1 decode lines of the log say 'cuda graph: False'",
        ),
        (
            of_rank(CAPTURES + USED, "DP0") + "\n" + of_rank(CAPTURES, "DP1"),
            "pfpp",
            "DP1: the log has no decode line",
        ),
        (
            of_rank(CAPTURES + USED, "DP1 TP0") + "\n" + of_rank(PLAIN + USED, "DP0 TP0"),
            "ppfp",
            "DP0: the server captured CUDA graphs of the target and none of the draft",
        ),
        (of_rank(CAPTURES + USED, "DP0") + "\n" + of_rank(USED, "DP10"), "pfpf", "DP1: the server"),
    ],
)
def test_each_data_parallel_rank_is_judged_by_its_own_lines(log, statuses, words):
    verdicts = judge_graphs(spec_of(dp=2), log)
    assert "".join(verdict.status[0] for verdict in verdicts) == statuses
    assert any(verdict.reasons[0].startswith(words) for verdict in verdicts)


def test_tensor_parallel_ranks_are_judged_together() -> None:
    log = of_rank(CAPTURES + USED, "TP0") + "\n" + of_rank(PLAIN, "TP1")
    graph, captures = judge_graphs(spec_of(tp=2), log)
    assert graph.reasons == ("all 1 decode lines say 'cuda graph: True'",)
    assert captures.status is Status.PASS


def test_with_dp_attention_the_first_rank_tells_of_all_captures() -> None:
    spec = spec_of(tp=2, dp=2, args=("--enable-dp-attention",))
    log = of_rank(CAPTURES + USED, "DP0 TP0") + "\n" + of_rank(PLAIN + USED, "DP1 TP1")
    assert [verdict.status for verdict in judge_graphs(spec, log)] == [Status.PASS] * 3


def run(*steps: int) -> AcceptanceSample:
    prompts = tuple(PromptSample(f"p{i}", 128, s, 0, "") for i, s in enumerate(steps))
    return AcceptanceSample(prompts, 128, 8, "", None)


def test_graphs_must_not_move_a_single_verify_step():
    assert judge_same_acceptance(run(30, 40), run(30, 40), exact=True).status is Status.PASS
    moved = judge_same_acceptance(run(30, 40), run(40, 30), exact=True)  # the same sum
    assert moved.status is Status.FAIL
    assert "2 of 2 prompts take other steps; first p0" in moved.reasons[0]
    assert judge_same_acceptance(run(30, 40), run(40, 31), exact=False).status is Status.PASS
    assert judge_same_acceptance(run(30, 40), run(40, 33), exact=False).status is Status.FAIL


def test_states_by_value():
    on = {"a": [[1.0, 0.0], [0.0, 2.0]]}
    assert judge_same_states(on, {"a": [[1.0, 0.01], [0.0, 2.0]]}).status is Status.PASS
    for off in (
        {"a": [[1.0, 0.03], [0.0, 2.0]]},
        {"a": [[math.nan, 0.0], [0.0, 2.0]]},
        {"a": [[1.0, 0.0]]},
        {"a": [[1.0], [2.0]]},
        {},
    ):
        assert judge_same_states(on, off).status is Status.FAIL
    assert judge_same_states({}, {}).status is Status.FAIL
    assert judge_same_states({"a": []}, {"a": []}).status is Status.FAIL
