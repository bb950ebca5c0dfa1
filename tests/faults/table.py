"""What was seen of every fault, judged, and the table of it in docs/faults.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from draftgate.diagnosis.conclusion import Guilt

from tests.conftest import ROOT
from tests.faults.catalogue import (
    ACCEPTANCE,
    ALGORITHM,
    BASELINE,
    CACHED,
    FLAGS,
    LAYERS,
    PAIR,
    SPEED,
    START,
    WIDTH,
    Check,
    Fault,
)
from tests.faults.pairs import Pair
from tests.faults.run import Seen, to_json

DOCS = ROOT / "docs" / "faults.md"
STAGES = {
    PAIR: "preflight",
    START: "start",
    ALGORITHM: "readback",
    FLAGS: "readback",
    WIDTH: "probe",
    LAYERS: "probe",
    ACCEPTANCE: "acceptance",
    CACHED: "acceptance",
    BASELINE: "gate",
    SPEED: "gate",
}
LONGEST = 220
"""Letters of a sentence in the table."""

Results = dict[str, dict[str, Seen]]


def read_results(pair: Pair) -> Results:
    if not pair.results.is_file():
        return {}
    plain = json.loads(pair.results.read_text(encoding="utf-8"))
    return {name: {k: Seen(**seen) for k, seen in kinds.items()} for name, kinds in plain.items()}


def write_results(pair: Pair, results: Results) -> None:
    ordered = {name: results[name] for name in pair.planted if name in results}
    pair.results.write_text(to_json(ordered), encoding="utf-8")


def never_run(pair: Pair, results: Mapping[str, Mapping[str, Seen]]) -> list[str]:
    """Faults and controls of which nothing was seen."""
    return [f"{name}: never run" for name in pair.planted if name not in results]


def judge(pair: Pair, results: Mapping[str, Mapping[str, Seen]]) -> list[str]:
    """What is not as it must be: a fault missed or named by another check, a false alarm."""
    problems = []
    for name, fault in pair.faults.items():
        seen = results.get(name, {})
        first = fault.before or fault.live
        problems += _problems(name, first, seen.get("before"))
        if fault.before is not None:
            problems += _problems(f"{name}, live", fault.live, seen.get("live"))
    for name, seen in results.items():
        words, concluded = pair.planted[name].diagnosis, _live(seen).concluded or ""
        if words not in concluded:
            problems.append(f"{name}: the diagnosis is not {words!r}: {concluded[:LONGEST]}")
    for name in pair.controls:
        alarm = results[name]["before"] if name in results else None
        if alarm is not None and alarm.test is not None:
            problems.append(f"{name}: a healthy control, and {alarm.test} is red: {alarm.message}")
    return problems


def _problems(name: str, expected: Check | None, seen: Seen | None) -> list[str]:
    if expected is None or seen is None:
        return []
    flat = " ".join(seen.message.split())
    if seen.test != expected.test:
        return [f"{name}: expected {expected.test}, first was {seen.test}: {flat[:LONGEST]}"]
    if expected.words not in flat:
        return [f"{name}: {seen.test} does not say {expected.words!r}: {flat[:LONGEST]}"]
    return []


def marks(pair: Pair) -> tuple[str, str]:
    """Between which lines of the docs the table lies."""
    return f"<!-- fault table: {pair.command} -->", f"<!-- end of the table: {pair.command} -->"


def write_table(pair: Pair, results: Results) -> None:
    text = DOCS.read_text(encoding="utf-8")
    begin, end = marks(pair)
    head, tail = text[: text.index(begin) + len(begin)], text[text.index(end) :]
    DOCS.write_text(f"{head}\n{render(pair, results)}\n{tail}", encoding="utf-8")


def render(pair: Pair, results: Mapping[str, Mapping[str, Seen]]) -> str:
    """The tables of a pair, for Markdown."""
    if pair.replayed:
        return "\n".join(_by_check(pair, results))
    healthy = results["plain"]["before"] if "plain" in results else None
    lines = [
        "| fault | without draftgate | caught at, after | the user reads |",
        "|---|---|---|---|",
    ]
    for name, fault in pair.faults.items():
        if name not in results:
            continue
        seen = results[name]
        without = _without(_live(seen), healthy)
        sentences = "<br>".join(dict.fromkeys(_sentence(s) for s in seen.values()))
        lines.append(f"| {fault.what} | {without} | {_where(seen)} | {sentences} |")
    lines += ["", "| healthy control | acceptance length | red tests |", "|---|---|---|"]
    for name, control in pair.controls.items():
        if name in results:
            seen_ = results[name]["before"]
            lines.append(f"| {control.what} | {seen_.length:.3f} | {seen_.test or 'none'} |")
    return "\n".join(lines)


def _by_check(pair: Pair, results: Mapping[str, Mapping[str, Seen]]) -> Iterator[str]:
    """What the floor, the layers and the draft alone say of each fault, by themselves."""
    yield (
        "| planted | acceptance length | floor | layers fed | draft alone, in the server | "
        "on the right layers | first red, after | diagnosis |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for name, fault in pair.planted.items():
        if name in results:
            yield f"| {' | '.join([fault.what, *_checks(fault, results[name])])} |"


def _checks(fault: Fault, seen: Mapping[str, Seen]) -> list[str]:
    live = _live(seen)
    if live.length is None or live.alone is None or live.concluded is None:
        raise ValueError(f"{fault.what}: its server was not measured to the end")
    alone, right = live.alone.get("fed"), live.alone.get("right")
    return [
        f"{live.length:.2f}",
        f"**below** {fault.floor:g}" if live.length < fault.floor else f"above {fault.floor:g}",
        live.fed or "not seen",
        f"{f'{alone:.2f}' if alone else 'cannot be run'}, {live.alone['server']:.2f}",
        f"{right:.2f}" if right else "",
        _where(seen),
        _shortened(live.concluded),
    ]


def _live(seen: Mapping[str, Seen]) -> Seen:
    return seen.get("live", seen["before"])


def _where(seen: Mapping[str, Seen]) -> str:
    stages = [
        f"{STAGES.get(s.test, s.test)}, {s.seconds:.0f} s" if s.test else "none"
        for s in seen.values()
    ]
    return stages[0] + "".join(f"; without preflight: {stage}" for stage in stages[1:])


def _without(live: Seen, healthy: Seen | None) -> str:
    """What somebody sees who only looks at the server."""
    if live.message.startswith("ForeignServer"):
        return "a healthy server, and not the one that was started"
    if not live.started:
        return "the server does not start" if live.test == START else "a healthy server"
    if live.length is None:
        return "a healthy server"
    right = healthy is not None and live.said == healthy.said
    return f"healthy, text {'right' if right else 'changed'}, acceptance length {live.length:.2f}"


def _sentence(seen: Seen) -> str:
    """The telling line of a message: in an acceptance failure, the diagnosis below the verdict; of
    a server that died, its exception."""
    lines = [line.strip() for line in seen.message.splitlines()]
    telling = tuple(f"{guilt}: " for guilt in Guilt)
    if seen.message.startswith("ServerFailed"):
        telling = ("root exception: ",)
    guilty = [line for line in lines[1:] if line.startswith(telling)]
    text = guilty[0] if guilty else re.sub(r"^planted/\S+: ", "", lines[0])
    return _shortened(text)


def _shortened(text: str) -> str:
    text = text.replace("|", "\\|")
    return text if len(text) <= LONGEST else text[: LONGEST - 4] + " ..."
