"""Sessions in every state a report can show, made of the real record in docs/records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from draftgate.gate.checks import Check
from draftgate.gate.throughput import judge_speed
from draftgate.measure.record import Accepted, Message, Record, ServerRecord, sentence_of
from draftgate.measure.record_file import read_record
from draftgate.measure.verdict import Metric, Status
from draftgate.report.history import Point, points_of

ROOT = Path(__file__).parent.parent
REAL = ROOT / "docs/records/h200x1-tiny-sglang-0.5.16.json"
JUDGED = Check.SPEED_CHANGE
CATEGORIES = ("coding", "extraction", "humanities", "math", "reasoning", "roleplay", "stem")
SLOW, MIS_WIRED = "tiny/eagle3-s3k1d4/graph", "tiny/eagle3-s5k1d6/eager"
NOT_BOOTED, MISSING = "tiny/eagle3-s3k4d8/eager", "tiny/embed-s3k1d4/graph"
MESSAGE = """ServerExited: tiny/eagle3-s3k4d8/eager: the server's process ended with exit code 1
  phase reached: weights after 58.1 s
  root exception: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
  remedy: lower mem_fraction_static, or free the GPU
  log: boot-0/server.log"""


def message(spec_id: str, text: str) -> Message:
    """What a check of a server said."""
    return Message(sentence_of(text, spec_id), text)


def real() -> Record:
    """The session as it was measured."""
    return read_record(REAL)


def night(index: int, *, slower: dict[str, float] | None = None) -> Record:
    """The real session `index` nights later; speeds scatter by 0.5 %, some servers are slower."""
    record = real()
    scatter = Random(index)
    start = datetime.fromisoformat(record.started_utc) + timedelta(days=index)
    servers = {}
    for id_, server in record.servers.items():
        factor = scatter.gauss(1, 0.005) * (1 - (slower or {}).get(id_, 0))
        servers[id_] = _faster(_gated(server), factor)
    return replace(
        record,
        session=f"{start:%Y-%m-%dT%H-%M-%S}-{index:04x}",
        started_utc=start.isoformat(),
        servers=servers,
        not_measured={},
    )


def accepted_nights(count: int = 12) -> list[Record]:
    """Accepted sessions, oldest first."""
    return [replace(night(i), accepted=Accepted("a good night")) for i in range(count)]


def judged(record: Record, accepted: Sequence[Record]) -> Record:
    """The record with the gate's verdicts on its speeds, and the outcomes that follow."""
    servers = {}
    for id_, server in record.servers.items():
        verdicts = judge_speed(record, id_, accepted)
        red = [verdict for verdict in verdicts if verdict.status.red]
        entries = tuple(replace(verdict, check=JUDGED) for verdict in verdicts)
        kept = tuple(v for v in server.verdicts if v.metric != Metric.THROUGHPUT)
        servers[id_] = replace(
            server,
            verdicts=kept + entries,
            outcomes={
                **server.outcomes,
                Check.SPEED: "passed",
                JUDGED: "failed" if red else "passed",
            },
            messages={JUDGED: message(id_, f"{id_}: {red[0].reasons[0]}")} if red else {},
        )
    return replace(record, servers=servers)


def green() -> Record:
    """A night on which every server was judged and none is worse."""
    return judged(night(30), accepted_nights())


def red() -> Record:
    """A night with a slower server, a mis-wired one, one that did not boot, and one missing."""
    record = judged(night(30, slower={SLOW: 0.12}), accepted_nights())
    servers = dict(record.servers)
    servers[MIS_WIRED] = _mis_wired(servers[MIS_WIRED])
    servers[NOT_BOOTED] = ServerRecord(
        NOT_BOOTED,
        servers[NOT_BOOTED].spec,
        outcomes={Check.FLAGS: "error"},
        messages={Check.FLAGS: message(NOT_BOOTED, MESSAGE)},
    )
    lost = {MISSING: "needs SGLang >=0.5.22, here is 0.5.16"}
    return replace(record, servers=servers, not_measured=lost, missing=tuple(lost))


def nothing() -> Record:
    """A night on which no server could be measured."""
    record = real()
    why = dict.fromkeys(record.servers, "needs 1 GPU, none visible")
    return replace(record, servers={}, not_measured=why)


def sixty() -> Record:
    """Sixty servers of three profiles, their prompts in categories."""
    record = green()
    servers = {}
    for profile in ("llama31-8b", "qwen3-32b", "tiny"):
        for server in record.servers.values():
            for variant in range(3 if server.spec.speculation else 1):
                cell = server.id.removeprefix("tiny/").replace("eagle3", f"draft-{variant}")
                id_ = f"{profile}/{cell}"
                servers[id_] = _in_categories(replace(server, id=id_))
    return replace(record, servers=servers)


def history_of(nights: int) -> list[Point]:
    """The points of that many nights."""
    return [point for index in range(nights) for point in points_of(night(index))]


def _faster(server: ServerRecord, factor: float) -> ServerRecord:
    boots = tuple(
        replace(
            boot,
            throughput=replace(
                boot.throughput,
                rounds=tuple(
                    replace(r, seconds=r.seconds / factor) for r in boot.throughput.rounds
                ),
            ),
        )
        for boot in server.boots
        if boot.throughput
    )
    return replace(server, boots=boots)


def _gated(server: ServerRecord) -> ServerRecord:
    throughput = replace(server.spec.throughput, gated=True)
    return replace(server, spec=replace(server.spec, throughput=throughput))


def _mis_wired(server: ServerRecord) -> ServerRecord:
    """The draft fed the layers of another: what test_3 and test_4 then say."""
    boot = server.last
    assert boot.layers is not None
    assert boot.acceptance is not None
    prompts = tuple(replace(p, verify_steps=94) for p in boot.acceptance.prompts)
    boot = replace(
        boot,
        layers=replace(boot.layers, fed=(2, 4, 6)),
        acceptance=replace(boot.acceptance, prompts=prompts, histogram=(2150, 700, 120, 30, 8, 0)),
    )
    reasons = {
        Check.LAYERS: "the draft was trained on [1, 3, 5], fed [2, 4, 6]",
        Check.ACCEPTANCE: "acceptance length 1.362 (4096 tokens in 3008 verify steps over 32 "
        "prompts) is below the profile's floor 4.8.",
    }
    verdicts = tuple(
        replace(v, status=Status.FAIL, reasons=(reasons[Check(v.check)],))
        if v.check in reasons
        else v
        for v in server.verdicts
    )
    return replace(
        server,
        boots=(boot,),
        verdicts=verdicts,
        outcomes={**server.outcomes, **dict.fromkeys(reasons, "failed")},
        messages={c: message(server.id, f"{server.id}: {said}") for c, said in reasons.items()},
    )


def _in_categories(server: ServerRecord) -> ServerRecord:
    boot = server.last
    if boot.acceptance is None:
        return server
    prompts = tuple(
        replace(prompt, category=CATEGORIES[i % len(CATEGORIES)])
        for i, prompt in enumerate(boot.acceptance.prompts)
    )
    acceptance = replace(boot.acceptance, prompts=prompts)
    return replace(server, boots=(replace(boot, acceptance=acceptance),))
