"""Speed: measured in rounds in each boot, compared with the accepted sessions over all boots."""

from __future__ import annotations

import pytest
from draftgate.gate.history import baseline_of
from draftgate.gate.throughput import judge_speed
from draftgate.gate.validity import boot_problems
from draftgate.report.slowdown import explain


@pytest.mark.dg_check("speed")
def test_throughput(spec, boot, session, subject, benchmark):
    if benchmark.disabled:
        pytest.skip("not measured: --benchmark-disable")
    sample = subject.measure_throughput(benchmark.pedantic)
    session.update(spec, boot, throughput=sample, invalid=boot_problems(sample))
    times = subject.measure_step_times()
    session.update(spec, boot, step_times=times)
    if times.reason is not None:
        session.say(f"{spec.id}  phases: not measured: {times.reason}")
    benchmark.extra_info.update(spec=spec.id, tok_s=sample.tok_s, step_s=sample.step_s)


@pytest.mark.dg_check("speed-change")
@pytest.mark.over_boots
def test_throughput_is_that_of_the_baseline(spec, session, judged, benchmarks):
    record = session.compiled()
    if record is None or spec.id not in record.servers:
        pytest.skip("no speed was measured")
    speeds = judge_speed(record, spec.id, session.accepted)
    verdicts = [*speeds, *benchmarks.judge(record.servers[spec.id], speeds)]
    baseline = baseline_of(record, spec.id, session.accepted)
    judged(*verdicts, explain=lambda: explain(record, spec.id, verdicts, baseline))
