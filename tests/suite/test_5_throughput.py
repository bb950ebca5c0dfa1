"""Speed: measured in rounds in each boot, compared with the accepted sessions over all boots."""

from __future__ import annotations

import pytest
from draftgate.gate.history import baseline_of
from draftgate.gate.throughput import boot_problems, judge_speed
from draftgate.report.slowdown import explain


@pytest.mark.dg_check("speed")
# A server that dies, or Ctrl-C, before the first round: the test has its own error.
@pytest.mark.filterwarnings("ignore:Benchmark fixture was not used")
def test_throughput(dg_spec, dg_boot, dg_session, dg_server, benchmark):
    if benchmark.disabled:
        pytest.skip("not measured: --benchmark-disable")
    sample = dg_server.measure_throughput(benchmark.pedantic)
    dg_session.update(dg_spec, dg_boot, throughput=sample, invalid=boot_problems(sample))
    times = dg_server.measure_step_times()
    dg_session.update(dg_spec, dg_boot, step_times=times)
    if times.reason is not None:
        dg_session.say(f"{dg_spec.id}  phases: not measured: {times.reason}")
    benchmark.extra_info.update(spec=dg_spec.id, tok_s=sample.tok_s, step_s=sample.step_s)


@pytest.mark.dg_check("speed-change")
@pytest.mark.dg_over_boots
def test_throughput_is_that_of_the_baseline(dg_spec, dg_session, dg_judge, dg_benchmarks):
    record = dg_session.compiled()
    if record is None or dg_spec.id not in record.servers:
        pytest.skip("no speed was measured")
    speeds = judge_speed(record, dg_spec.id, dg_session.accepted)
    verdicts = [*speeds, *dg_benchmarks.judge(record.servers[dg_spec.id], speeds)]
    baseline = baseline_of(record, dg_spec.id, dg_session.accepted)
    dg_judge(*verdicts, explain=lambda: explain(record, dg_spec.id, verdicts, baseline))
