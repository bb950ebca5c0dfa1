"""Tokens per second, measured in rounds and compared with the accepted records."""

from __future__ import annotations

import pytest

from fixtures.gate.store import accepted_throughput, load_accepted
from fixtures.gate.throughput import judge_throughput
from fixtures.measure.prompts import prompt_set_sha256
from fixtures.measure.samples import ThroughputSample


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
    session.update(spec, boot, throughput=sample)
    benchmark.extra_info.update(spec=spec.id, tok_s=sample.tok_s, step_s=sample.step_s)
    folder = session.settings.baselines / session.machine.machine_class
    judged(
        judge_throughput(
            sample,
            accepted_throughput(load_accepted(folder), spec.id),
            tolerance=spec.throughput.tolerance,
            gated=spec.throughput.gated,
            where=f"{folder.parent.name}/{folder.name}",
        )
    )
