"""Speed, measured in rounds and compared with the accepted sessions: tok/s, steps/s, speed-up."""

from __future__ import annotations

import pytest

from fixtures.gate.history import baseline_of
from fixtures.gate.throughput import judge_speed
from fixtures.gate.validity import boot_problems
from fixtures.measure.prompts import prompt_set_sha256
from fixtures.measure.samples import ThroughputSample
from fixtures.report.slowdown import explain


def test_throughput(spec, boot, session, subject, judged, benchmark):
    if benchmark.disabled:
        pytest.skip("not measured: --benchmark-disable")
    workload = subject.workload()
    warmup, settled = workload.warm_up()
    rounds = []
    benchmark.pedantic(
        lambda: rounds.append(workload.run()),
        setup=workload.prepare,
        rounds=spec.throughput.rounds,
    )
    sample = ThroughputSample(
        warmup=warmup,
        rounds=tuple(rounds),
        settled=settled,
        concurrency=spec.throughput.concurrency,
        max_new_tokens=spec.throughput.max_new_tokens,
        prompts=spec.throughput.prompts,
        prompt_set_sha256=prompt_set_sha256(subject.prompts[: spec.throughput.prompts]),
    )
    session.update(spec, boot, throughput=sample, invalid=boot_problems(sample))
    benchmark.extra_info.update(spec=spec.id, tok_s=sample.tok_s, step_s=sample.step_s)
    record = session.compiled()
    verdicts = judge_speed(record, spec.id, session.accepted)
    baseline = baseline_of(record, spec.id, session.accepted)
    judged(*verdicts, explain=lambda: explain(record, spec.id, verdicts, baseline))
