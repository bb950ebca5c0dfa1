"""Speed against accepted sessions, through whole records."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from draftgate.diagnosis.of_record import diagnose_record
from draftgate.gate.throughput import boot_problems, judge_speed
from draftgate.measure.record import Accepted
from draftgate.measure.samples import StepTimes
from draftgate.measure.verdict import Status
from draftgate.report.rows import speed_up_of
from hypothesis import given
from hypothesis import strategies as st

NONE, SPEC = "tiny/none/cpu", "tiny/eagle3-s3k1d4/cpu"
TWELVE = (0.5, -0.5, 1, -1, 0, 0.2, -0.2, 0.7, -0.7, 0.3, -0.3, 0)
CHANGED = {"sglang": "0.5.24", "torch": "2.14.1", "suite_commit": "bb"}


def statuses(record, accepted, spec_id=SPEC):
    return {v.metric: v.status for v in judge_speed(record, spec_id, accepted)}


def test_equal_passes(make_record, history):
    assert statuses(make_record(), history(*TWELVE)) == {
        "throughput": Status.PASS,
        "step-rate": Status.PASS,
        "speed-up": Status.PASS,
    }
    assert statuses(make_record(), history(*TWELVE), NONE) == {"throughput": Status.PASS}


def test_no_baseline_then_recording_then_provisional_then_judged(make_record, history):
    slow = make_record(spec=(150.0,), software=CHANGED)
    assert set(statuses(slow, []).values()) == {Status.RECORDING}  # a new machine class
    other = make_record("s0")
    other = replace(other, servers={"mine/none/cpu": other.servers[NONE]})
    assert set(statuses(slow, [other]).values()) == {Status.NO_BASELINE}
    assert set(statuses(slow, history(*TWELVE[:4])).values()) == {Status.RECORDING}
    five = judge_speed(slow, SPEC, history(*TWELVE[:5]))
    assert {v.status for v in five} == {Status.REGRESSION}
    assert "provisional: 5 of 12 accepted sessions" in five[0].reasons
    twelve = judge_speed(slow, SPEC, history(*TWELVE))
    assert twelve[0].reasons[1:] == ()
    assert twelve[0].limit > five[0].limit  # more sessions, a tighter limit


def test_words_and_numbers_of_a_regression(make_record, history):
    verdict = judge_speed(make_record(spec=(160.0,), software=CHANGED), SPEC, history(*TWELVE))[0]
    assert verdict.status is Status.REGRESSION
    assert verdict.value == pytest.approx(160)
    assert verdict.effect == pytest.approx(-0.2, abs=0.001)
    assert verdict.interval[0] < -0.2 < verdict.interval[1] < -0.15
    assert verdict.limit == pytest.approx(196, abs=0.5)
    assert verdict.reasons[0].startswith("slower: 160 tok/s against 200 (-20.0%, 95 % -21.")


def test_which_factor_was_lost_is_told_apart(make_record, history):
    accepted = history(*TWELVE)
    engine = statuses(make_record(spec=(160.0,), software=CHANGED), accepted)
    assert engine["throughput"] is engine["step-rate"] is Status.REGRESSION
    # 20 % less accepted in each step, the steps as fast as ever
    draft = statuses(make_record(spec=(160.0,), length=2.8, software=CHANGED), accepted)
    assert draft["throughput"] is Status.REGRESSION
    assert draft["step-rate"] is Status.PASS


def test_faster_is_improved_and_asks_to_be_accepted(make_record, history):
    verdict = judge_speed(make_record(spec=(260.0,)), SPEC, history(*TWELVE))[0]
    assert verdict.status is Status.IMPROVED
    assert "accept the new record" in verdict.reasons[0]


def test_a_noisy_limit_gates_nothing_and_says_so(make_record, history):
    noisy = history(*(8 * p for p in TWELVE))
    verdict = judge_speed(make_record(), SPEC, noisy)[0]
    assert verdict.status is Status.UNGATED_NOISY
    assert "a limit this wide gates nothing; a loss of" in verdict.reasons[0]
    halved = statuses(make_record(spec=(100.0,), software=CHANGED), noisy)
    assert halved["throughput"] is Status.REGRESSION  # beyond even that limit


def test_both_slower_with_nothing_changed_is_the_machine(make_record, history):
    accepted = history(*TWELVE)
    both = {"none": (80.0,), "spec": (160.0,)}
    assert statuses(make_record(**both), accepted) == {
        "throughput": Status.MACHINE_DRIFT,
        "step-rate": Status.MACHINE_DRIFT,
        "speed-up": Status.PASS,
    }
    assert statuses(make_record(**both), accepted, NONE) == {"throughput": Status.MACHINE_DRIFT}
    changed = statuses(make_record(**both, software=CHANGED), accepted)
    assert changed["throughput"] is Status.REGRESSION
    # The suite's own commit is no software of the server.
    own = {"sglang": "0.5.23", "torch": "2.14.1", "suite_commit": "zz"}
    same = statuses(make_record(**both, software=own), accepted)
    assert same["throughput"] is Status.MACHINE_DRIFT
    without = statuses(make_record(none=(), spec=(160.0,)), accepted)
    assert without["throughput"] is Status.REGRESSION  # nothing shows it is the machine
    alone = statuses(make_record(spec=(160.0,)), accepted)
    assert alone["throughput"] is Status.REGRESSION  # the reference is as fast as ever


def test_another_machine_of_the_class(make_record, history):
    accepted = history(*TWELVE)
    elsewhere = replace(accepted[0].machine, host="h1")
    slow = make_record(none=(70.0,), spec=(140.0,), machine=elsewhere)
    found = statuses(slow, accepted)
    assert found["throughput"] is found["step-rate"] is Status.NOT_COMPARABLE
    assert found["speed-up"] is Status.PASS
    shrunk = statuses(make_record(none=(100.0,), spec=(150.0,), machine=elsewhere), accepted)
    assert shrunk["speed-up"] is Status.REGRESSION


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"resolved": {"attention_backend": "triton"}}, "attention_backend fa3, now triton: pin"),
        ({"draft": "d9"}, "another draft was measured"),
    ],
)
def test_what_is_another_thing_is_not_compared(make_record, history, changes, words):
    verdict = judge_speed(make_record(**changes), SPEC, history(*TWELVE))[0]
    assert verdict.status is Status.NOT_COMPARABLE
    assert words in verdict.reasons[0]


def test_another_workload_is_not_compared(make_record, history):
    accepted = history(*TWELVE)
    now = make_record()
    server = now.servers[SPEC]
    other = replace(server.boots[0].throughput, concurrency=8)
    boots = (replace(server.boots[0], throughput=other),)
    now = replace(now, servers={**now.servers, SPEC: replace(server, boots=boots)})
    assert statuses(now, accepted)["throughput"] is Status.NOT_COMPARABLE


def test_without_the_reference_the_speed_up_is_not_comparable(make_record, history):
    found = judge_speed(make_record(none=()), SPEC, history(*TWELVE))
    assert [v.status for v in found] == [Status.PASS, Status.PASS, Status.NOT_COMPARABLE]
    assert "tiny/none/cpu was not measured" in found[2].reasons[0]


def timed_alone(record):
    """The same session, whose server without speculation was asked other rounds."""
    none = record.servers[NONE]
    boots = [
        replace(b, throughput=replace(b.throughput, concurrency=b.throughput.concurrency + 7))
        for b in none.boots
    ]
    return replace(record, servers={**record.servers, NONE: replace(none, boots=tuple(boots))})


def test_eight_requests_at_once_are_not_faster_than_one(make_record, history):
    record = timed_alone(make_record())
    found = {v.metric: v for v in judge_speed(record, SPEC, [])}
    assert found["speed-up"].status is Status.NOT_COMPARABLE
    assert f"{NONE} was not measured validly on the same rounds" in found["speed-up"].reasons[0]
    assert speed_up_of(record, record.servers[SPEC]) is None
    # Nothing says then that the machine is what made both slower.
    slow = timed_alone(make_record(none=(80.0,), spec=(160.0,)))
    accepted = [timed_alone(one) for one in history(*TWELVE)]
    assert statuses(slow, accepted)["throughput"] is Status.REGRESSION
    # Once it is mended, its speed-up is recorded anew.
    again = {v.metric: v for v in judge_speed(make_record(), SPEC, accepted)}
    assert again["speed-up"].status is Status.RECORDING
    assert "none of 12 accepted sessions holds a speed-up of this" in again["speed-up"].reasons[0]
    said = diagnose_record(record, [SPEC], [])
    assert f"break-even: unknown, since {NONE} was timed on other rounds" in said


def test_not_gated_is_shown(make_record, history):
    verdict = judge_speed(make_record(spec=(100.0,), gated=False), SPEC, history(*TWELVE))[0]
    assert verdict.status is Status.NOT_GATED
    assert verdict.effect == pytest.approx(-0.5, abs=0.01)


def test_invalid_boots(make_record, history):
    accepted = history(*TWELVE)
    verdict = judge_speed(make_record(settled=False), SPEC, accepted)[0]
    assert verdict.status is Status.UNSTABLE
    assert verdict.reasons == ("0 of 1 boots are valid: warm-up rounds never agreed",)
    gross = judge_speed(make_record(spec=(100.0,), settled=False, software=CHANGED), SPEC, accepted)
    assert [v.status for v in gross] == [Status.REGRESSION, Status.REGRESSION, Status.UNSTABLE]
    assert "slower: even the fastest round, 100 tok/s, against 200" in gross[0].reasons[0]
    late = (110.0, 200.0, 200.0)  # the first round held one-off work
    one_of_two = judge_speed(make_record(spec=(200.0, late)), SPEC, accepted)[0]
    assert one_of_two.status is Status.UNSTABLE
    assert "1 of 2 boots are valid: the first round took 4.65 s" in one_of_two.reasons[0]
    two_of_three = judge_speed(make_record(spec=(200.0, late, 200.0)), SPEC, accepted)[0]
    assert two_of_three.status is Status.PASS


def test_what_was_never_timed_is_not_unstable(make_record, history):
    now = make_record()
    server = now.servers[SPEC]
    untimed = replace(server, boots=(replace(server.boots[0], throughput=None),))
    for boots, told in ((untimed.boots, "no round was timed"), ((), "it was not booted")):
        servers = {**now.servers, SPEC: replace(server, boots=boots)}
        found = judge_speed(replace(now, servers=servers), SPEC, history(*TWELVE))
        assert {(v.status, v.reasons) for v in found} == {(Status.NOT_MEASURED, (told,))}


@pytest.mark.parametrize("speed", [math.nan, math.inf, 0.0])
def test_what_is_no_number_never_passes(make_record, history, speed):
    now = make_record()
    server = now.servers[SPEC]
    sample = server.boots[0].throughput
    rounds = tuple(replace(round_, seconds=speed) for round_ in sample.rounds)
    broken = replace(sample, rounds=rounds)
    boot = replace(server.boots[0], throughput=broken, invalid=boot_problems(broken))
    now = replace(now, servers={**now.servers, SPEC: replace(server, boots=(boot,))})
    assert set(statuses(now, history(*TWELVE)).values()) == {Status.UNSTABLE}


def test_boots_not_rounds_are_what_counts(make_record, history):
    # The mean of two boots, each the median of its rounds; a round that hung counts for nothing.
    verdict = judge_speed(make_record(spec=((200.0, 200.0, 20.0), 190.0)), SPEC, [])[0]
    assert verdict.value == pytest.approx(math.sqrt(200 * 190))


def test_one_boot_is_compared_with_one_boot_of_each_session(make_record):
    accepted = [
        make_record(f"s{i}", spec=(200.0 + wobble, 100.0, 100.0))
        for i, wobble in enumerate((2, -2, 1, -1, 0))
    ]
    assert statuses(make_record(spec=(199.0,)), accepted)["throughput"] is Status.PASS


def test_a_session_is_never_its_own_baseline(make_record):
    now = make_record()
    assert set(statuses(now, [now]).values()) == {Status.NO_BASELINE}


def test_a_restart_ends_what_counts(make_record, history):
    accepted = history(*TWELVE)
    lowered = make_record(
        "s020",
        spec=(150.0,),
        started="2025-06-01T00:00:00+00:00",
        accepted=Accepted("x", restarts={SPEC: ""}),
    )
    found = judge_speed(make_record(spec=(150.0,)), SPEC, [*accepted, lowered])
    assert found[0].status is Status.RECORDING
    assert "1 of 5 accepted sessions" in found[0].reasons[0]
    assert statuses(make_record(), [*accepted, lowered], NONE)["throughput"] is Status.PASS


@given(drop=st.floats(0.03, 0.9), more=st.floats(0, 0.9))
def test_a_larger_drop_is_never_judged_milder(make_record, history, drop, more):
    accepted = history(*TWELVE)
    for share in (1 - drop, (1 - drop) * (1 - more)):
        found = statuses(make_record(spec=(200 * share,), software=CHANGED), accepted)
        assert set(found.values()) == {Status.REGRESSION}


@given(order=st.permutations(range(12)))
def test_the_order_of_records_is_irrelevant(make_record, history, order):
    accepted = history(*TWELVE)
    now = make_record(spec=(197.0,))
    assert judge_speed(now, SPEC, [accepted[i] for i in order]) == judge_speed(now, SPEC, accepted)


@given(gain=st.floats(0.03, 1))
def test_the_direction_is_right_for_every_metric(make_record, history, gain):
    accepted = history(*TWELVE)
    up = statuses(make_record(spec=(200 * (1 + gain),)), accepted)
    down = statuses(make_record(spec=(200 / (1 + gain),), software=CHANGED), accepted)
    assert set(up.values()) == {Status.IMPROVED}
    assert set(down.values()) == {Status.REGRESSION}


def step_times(device_ms, clock):
    """A boot whose steps kept the device busy for so long."""
    shares = {"draft": 0.2, "verify": 0.7, "extend": 0.1}
    return StepTimes(100, clock, {name: (share * device_ms,) * 3 for name, share in shares.items()})


def timed(record, device_ms, clock="cuda"):
    """The record, its speculating server's steps timed in every boot."""
    server = record.servers[SPEC]
    boots = tuple(replace(b, step_times=step_times(device_ms, clock)) for b in server.boots)
    return replace(record, servers={**record.servers, SPEC: replace(server, boots=boots)})


def test_device_time_is_judged_where_both_sides_have_it(make_record, history):
    before = zip(history(*TWELVE), TWELVE, strict=True)
    accepted = [timed(r, 6.0 * (1 + percent / 100)) for r, percent in before]
    assert statuses(timed(make_record(), 6.0), accepted)["device-step-rate"] is Status.PASS
    slower = judge_speed(timed(make_record(software=CHANGED), 6.6), SPEC, accepted)
    (verdict,) = [v for v in slower if v.status is Status.REGRESSION]
    assert (verdict.metric, verdict.unit) == ("device-step-rate", "1/s")
    assert verdict.value == pytest.approx(1000 / 6.6)
    assert verdict.effect == pytest.approx(-0.091, abs=0.001)


def test_two_percent_of_device_time_are_red_and_what_repeats_is_green(make_record, history):
    """The sums of phases are those of three boots of one server on an H200 (docs/gpu-noise.md)."""
    three = (6.2079, 6.2002, 6.2106)
    measured = (*three, *three[:2])
    accepted = [timed(r, ms) for r, ms in zip(history(*TWELVE)[:5], measured, strict=True)]

    def judged(ms):
        return statuses(timed(make_record(software=CHANGED), ms), accepted)["device-step-rate"]

    assert [judged(ms) for ms in measured] == [Status.PASS] * 5
    assert judged(6.206 * 1.008) is Status.PASS
    assert judged(6.206 * 1.02) is Status.REGRESSION


@pytest.mark.parametrize(
    ("now_ms", "clock", "sessions"),
    [(None, "cuda", 12), (6.0, "cuda", 4), (6.0, "host", 12)],
)
def test_device_time_is_left_out_elsewhere(make_record, history, now_ms, clock, sessions):
    before = history(*TWELVE)
    accepted = [timed(r, 6.0, clock) for r in before[:sessions]] + before[sessions:]
    record = make_record() if now_ms is None else timed(make_record(), now_ms, clock)
    assert statuses(record, accepted).keys() == {"throughput", "step-rate", "speed-up"}
