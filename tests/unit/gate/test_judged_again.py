"""Every record of docs/records comes to the verdicts it came to when it was filed, to the last bit.

`judged-again.json` beside this file holds them; `python -m tests.unit.gate.test_judged_again`
writes it again, which only a deliberate change of a rule may do.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from draftgate.gate.acceptance import (
    judge_change,
    judge_length,
    judge_same_acceptance,
    judge_several_gpus,
)
from draftgate.gate.hidden_states import judge_fc_width, judge_layers
from draftgate.gate.history import acceptance_of, baseline_of
from draftgate.gate.store import load_accepted
from draftgate.gate.throughput import judge_speed
from draftgate.measure.record import Record, ServerRecord
from draftgate.measure.record_file import read_record
from draftgate.measure.verdict import Verdict

RECORDS = Path(__file__).parents[3] / "docs" / "records"
FILED = Path(__file__).with_name("judged-again.json")
NAMES = [str(path.relative_to(RECORDS)) for path in sorted(RECORDS.rglob("*.json"))]


def verdicts(record: Record, server: ServerRecord) -> Iterator[Verdict]:
    """What the gate says of one server now, from the record and the accepted sessions alone."""
    accepted = load_accepted(RECORDS / "baselines" / record.machine.machine_class)
    yield from judge_speed(record, server.id, accepted)
    boot = server.last
    if boot.widths is not None:
        yield judge_fc_width(boot.widths, 64)
    if boot.layers is not None:
        yield judge_layers(boot.layers, ranks=boot.layers.ranks)
    if boot.acceptance is None:
        return
    yield judge_length(
        boot.acceptance,
        num_steps=server.spec.speculation.num_steps,
        floor=server.spec.acceptance_floor,
        ceiling=server.spec.acceptance_ceiling,
        category_floors=server.spec.category_floors,
    )
    baseline = baseline_of(record, server.id, accepted)
    yield judge_change(boot.acceptance, acceptance_of(server.id, baseline), baseline.absence)
    twin = record.servers.get(server.id.replace("/eager", "/graph"), server)
    if twin is not server and twin.last.acceptance is not None:
        yield judge_same_acceptance(twin.last.acceptance, boot.acceptance, exact=True)
    one = record.servers.get(server.spec.one_rank_id or "")
    if one is not None and one.last.acceptance is not None:
        yield judge_several_gpus(boot.acceptance, one.last.acceptance, exact=True)


def judged(name: str) -> list[list[object]]:
    record = read_record(RECORDS / name)
    found = [
        [id_, v.name, str(v.status), v.value, v.effect, v.limit, v.interval]
        for id_, server in record.servers.items()
        for v in verdicts(record, server)
    ]
    return list(json.loads(json.dumps(found)))


@pytest.mark.parametrize("name", NAMES)
def test_a_record_comes_to_the_same_verdicts(name: str) -> None:
    assert judged(name) == json.loads(FILED.read_text())[name]


def _rows(rows: list[list[object]]) -> str:
    return ",\n  ".join(map(json.dumps, rows))


if __name__ == "__main__":
    every = {name: judged(name) for name in NAMES}
    lines = [f"{json.dumps(name)}: [\n  {_rows(rows)}\n ]" for name, rows in every.items()]
    FILED.write_text("{\n " + ",\n ".join(lines) + "\n}\n")
    sys.stdout.write(f"{FILED}: {sum(map(len, every.values()))} verdicts\n")
