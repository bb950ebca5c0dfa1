"""What a record alone says of speed: factors, who moved them, and where speculation pays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from draftgate.cli import main
from draftgate.diagnosis.of_record import diagnose_record
from draftgate.errors import BaselineError
from draftgate.measure.record import BootRecord, Layers, Message, ServerRecord
from draftgate.measure.record_file import read_record
from draftgate.measure.samples import Round, StepTimes, ThroughputSample
from draftgate.measure.verdict import Metric, Status

from tests import states
from tests.asked import SPECULATION, asked

ROOT = Path(__file__).parents[3]
RECORD = ROOT / "docs" / "records" / "h200x1-tiny-sglang-0.5.16.json"
PAIR = ["--target", "builtin:tiny", "--draft", "builtin:tiny-eagle3"]


def server(id_, tok_s, length=None, base="kimi/none/graph", concurrency=1, **more):
    steps = None if length is None else 1000
    tokens = 1000 * (length or 1)
    sample = ThroughputSample(
        (), (Round(tokens / tok_s, tokens, steps, None),), True, concurrency, 64, 8, "prompts"
    )
    spec = asked(reference_id=base, speculation=SPECULATION if length else None)
    return ServerRecord(id_, spec, boots=(BootRecord(0, throughput=sample, **more),))


def record(*servers, session="now"):
    return replace(read_record(RECORD), session=session, servers={s.id: s for s in servers})


NONE = server("kimi/none/graph", 90.0, base=None)
EAGER_NONE = server("kimi/none/eager", 30.0, base=None)
SLOW = server("kimi/mine-s5k1d6/graph", 56.7, 2.1)


def test_break_even_and_what_other_cells_of_the_draft_measured():
    other = server("kimi/mine-s2k1d3/graph", 99.0, 1.9)
    # Eight requests at once make eight times the steps: no neighbour of this server.
    eight = server("kimi/mine-s5k1d6-bs8/graph", 400.0, 2.1, concurrency=8)
    # A boot that was lost changes nothing of what the others measured.
    slow = replace(SLOW, boots=(*SLOW.boots, BootRecord(1)))
    text = diagnose_record(record(NONE, slow, other, eight), [SLOW.id], [])
    assert text.splitlines() == [
        "kimi/mine-s5k1d6/graph",
        "  speed: 56.7 tok/s = acceptance length 2.100 x 27.0 verify steps/s; no accepted record "
        "to compare with",
        "  break-even: acceptance length 3.33; here 2.10 (-1.23): 0.63x the speed of "
        "kimi/none/graph",
        "  kimi/mine-s2k1d3/graph: 19.2 ms per verify step (here 37.0), break-even 1.73, measured "
        "1.90, 99.0 tok/s",
    ]
    # Where speculation pays, there is nothing to look for.
    assert len(diagnose_record(record(NONE, SLOW, other), [other.id], []).splitlines()) == 3


@pytest.mark.parametrize(
    ("now", "base_now", "words"),
    [
        (server(SLOW.id, 82.3 * 0.9, 2.1), NONE, "engine speed: as much is accepted as before"),
        (server(SLOW.id, 82.3 / 2, 1.05), NONE, "draft quality: less is accepted"),
        (
            server(SLOW.id, 82.3 * 0.9, 2.1),
            server(NONE.id, 81.0, base=None),
            "machine: steps take longer, and so does the server without speculation",
        ),
    ],
)
def test_who_is_guilty_of_a_lost_speed(now, base_now, words):
    accepted = [record(NONE, server(SLOW.id, 82.3, 2.1), session="then")]
    assert words in diagnose_record(record(base_now, now), [now.id], accepted)


def steps(step_ms, **phases_ms):
    return StepTimes(9, "cuda", {k: (v, v, v) for k, v in phases_ms.items()}, (step_ms,) * 3)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (
            steps(41.0, draft=5.0, verify=30.0, extend=2.0),
            "each verify step takes longer: most of it verify, 26.00 -> 30.00 ms",
        ),
        (
            steps(41.0, draft=5.0, verify=26.0, extend=2.0),
            "the host keeps each step waiting longer: most of it host, 4.00 -> 8.00 ms",
        ),
    ],
)
def test_the_part_of_the_step_that_lost_the_time_is_named(now, words):
    before = steps(37.0, draft=5.0, verify=26.0, extend=2.0)
    accepted = [record(NONE, server(SLOW.id, 82.3, 2.1, step_times=before), session="then")]
    slower = server(SLOW.id, 82.3 * 0.9, 2.1, step_times=now)
    text = diagnose_record(record(NONE, slower), [SLOW.id], accepted)
    assert words in text
    assert "accepted: 37.00 ms = draft 5.00 + verify 26.00 + extend 2.00 + host 4.00" in text


def test_a_step_beside_one_without_speculation_and_one_without_graphs():
    none = server(NONE.id, 90.0, base=None, step_times=steps(11.0, decode=10.0))
    fast = server(SLOW.id, 56.7, 2.1, step_times=steps(37.0, draft=5.0, verify=28.0, extend=2.0))
    eager = server("kimi/mine-s5k1d6/eager", 21.0, 2.1, step_times=steps(100.0, verify=60.0))
    text = diagnose_record(record(none, fast, eager), [SLOW.id], [])
    assert text.splitlines()[2:7] == [
        "  a step: 37.00 ms = draft 5.00 + verify 28.00 + extend 2.00 + host 2.00; between steps "
        "run prefills, which steps/s include",
        "  CUDA graphs: 2.70x the speed of kimi/mine-s5k1d6/eager",
        "  a step of kimi/mine-s5k1d6/eager: 100.00 ms = verify 60.00 + host 40.00",
        "  break-even: acceptance length 3.33; here 2.10 (-1.23): 0.63x the speed of "
        "kimi/none/graph",
        "  a step of kimi/none/graph: 11.00 ms = decode 10.00 + host 1.00; speculation adds 26.00 "
        "ms, most of it by verify (18.00)",
    ]
    shorter = server(eager.id, 21.0, 2.1, concurrency=2)
    text = diagnose_record(record(none, fast, shorter), [SLOW.id], [])
    assert "2.70x the speed of kimi/mine-s5k1d6/eager, which was timed on other rounds\n" in text


def test_a_speed_that_stands_is_shown():
    accepted = [record(NONE, SLOW, session="then")]
    text = diagnose_record(record(NONE, server(SLOW.id, 56.0, 2.1)), [SLOW.id], accepted)
    assert "against the accepted: tok/s -1.2% = acceptance length +0.0%" in text
    assert "engine speed" not in text


def test_a_red_acceptance_is_concluded():
    layers = Layers((-1, 1, 3), (1, 3, 5), (0.0,) * 3, "weights", 1, True)
    red = Metric.ACCEPTANCE_LENGTH.verdict(Status.FAIL, "below the floor", value=1.152, limit=3.4)
    wrong = replace(server("tiny/x/cpu", 50.0, 1.15, layers=layers), verdicts=(red,))
    text = diagnose_record(record(wrong), [], [])
    assert "wiring: the draft was trained on [embedding, 1, 3], fed [1, 3, 5]" in text


def test_a_speed_that_was_measured_and_is_invalid_is_told_with_its_break_even():
    unsettled = ("warm-up rounds never agreed",)
    none = server(NONE.id, 84.9, base=None, invalid=unsettled)
    slow = server(SLOW.id, 51.8, 2.057, invalid=unsettled)
    text = f"{SLOW.id}: 10 of 32 greedy texts differ\nand more"
    said = {"text": states.message(SLOW.id, text)}
    red = replace(slow, outcomes={"text": "failed", "speed": "passed"}, messages=said)
    assert diagnose_record(record(none, red), [], []).splitlines() == [
        NONE.id,
        "  speed: 84.9 tok/s = acceptance length 1.000 x 84.9 verify steps/s; measured, and "
        "invalid because warm-up rounds never agreed",
        SLOW.id,
        "  text failed: 10 of 32 greedy texts differ",
        "  speed: 51.8 tok/s = acceptance length 2.057 x 25.2 verify steps/s; measured, and "
        "invalid because warm-up rounds never agreed",
        "  break-even: acceptance length 3.37; here 2.06 (-1.31): 0.61x the speed of "
        f"{NONE.id}, by invalid boots of {SLOW.id} and {NONE.id}",
    ]


def test_a_server_that_was_never_booted_says_why():
    text = "ModelError: nowhere: no such model folder (/nowhere)"
    spec = asked(reference_id=NONE.id, speculation=SPECULATION)
    said = {"pair": Message(text, text)}
    never = ServerRecord(SLOW.id, spec, outcomes={"pair": "failed"}, messages=said)
    assert diagnose_record(record(NONE, never), [SLOW.id], []).splitlines() == [
        SLOW.id,
        "  pair failed: ModelError: nowhere: no such model folder (/nowhere)",
        "  speed: not measured: no boot became ready",
    ]


def test_the_acceptance_length_is_told_without_a_speed():
    sample = read_record(RECORD).servers["tiny/eagle3-s3k1d4/graph"].last.acceptance
    seen = replace(SLOW, boots=(BootRecord(0, acceptance=sample),))
    assert diagnose_record(record(NONE, seen), [SLOW.id], []).splitlines()[1:] == [
        f"  acceptance length {sample.length:.3f}",
        "  speed: not measured",
    ]


def test_a_server_that_is_not_in_the_record_is_refused():
    with pytest.raises(BaselineError, match="--server tiny/y: the record of .* holds kimi/none/g"):
        diagnose_record(record(NONE), ["tiny/y"], [])


@pytest.mark.parametrize(
    ("globs", "ids"),
    [
        (["kimi/*"], [NONE.id, SLOW.id]),
        (["*s5k1d6*"], [SLOW.id]),
        (["none/graph"], [NONE.id]),
        (["none/*", "mine-*"], [NONE.id, SLOW.id]),
    ],
)
def test_servers_are_chosen_as_by_pytest(globs, ids):
    text = diagnose_record(record(NONE, SLOW), globs, [])
    assert [line for line in text.splitlines() if not line.startswith(" ")] == ids


def test_the_command_reads_a_record(capsys, tmp_path):
    id_ = "tiny/eagle3-s3k4d8/graph"
    arguments = ["diagnose", str(RECORD), "--server", id_, "--baselines", str(tmp_path)]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "break-even: acceptance length 4.25; here 3.56 (-0.69): 0.84x the speed of" in out
    assert "tiny/eagle3-s3k1d4/graph: 4.2 ms per verify step (here 6.8), break-even 2.59" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give a RECORD, or --url with --target and --draft"),
        ([str(RECORD), "--url", "http://127.0.0.1:1"], "give a RECORD, or --url"),
        (["--url", "http://127.0.0.1:1", "--target", "builtin:tiny"], "give a RECORD, or --url"),
        (["--url", "http://127.0.0.1:1"], "--url needs --target and --draft"),
        (
            ["--url", "http://127.0.0.1:1", "--server", "*s5*", *PAIR],
            "--server *s5* chooses servers of a RECORD, and --url names one itself",
        ),
    ],
)
def test_the_command_refuses_what_does_not_go_together(capsys, arguments, words):
    assert main(["diagnose", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_server_that_does_not_answer_is_one_sentence(capsys):
    assert main(["diagnose", "--url", "http://127.0.0.1:1", *PAIR]) == 2
    said = capsys.readouterr().err
    assert "http://127.0.0.1:1/server_info cannot be reached (ConnectionError)" in said
    assert "HTTPConnectionPool" not in said
