"""What was seen of every fault, judged, and the table of it in docs/faults.md."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from fixtures.diagnosis.conclusion import Guilt
from tests.conftest import ROOT
from tests.faults.catalogue import (
    ACCEPTANCE,
    ALGORITHM,
    BASELINE,
    CACHED,
    CONTROLS,
    FAULTS,
    FLAGS,
    LAYERS,
    PAIR,
    SPEED,
    START,
    WIDTH,
    Check,
)
from tests.faults.run import Seen, to_json

RESULTS = Path(__file__).parent / "results.json"
DOCS = ROOT / "docs" / "faults.md"
BEGIN, END = "<!-- fault table: python -m tests.faults -->", "<!-- end of the fault table -->"
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


def read_results() -> Results:
    if not RESULTS.is_file():
        return {}
    plain = json.loads(RESULTS.read_text(encoding="utf-8"))
    return {name: {k: Seen(**seen) for k, seen in kinds.items()} for name, kinds in plain.items()}


def write_results(results: Results) -> None:
    ordered = {name: results[name] for name in {**FAULTS, **CONTROLS} if name in results}
    RESULTS.write_text(to_json(ordered), encoding="utf-8")


def never_run(results: Mapping[str, Mapping[str, Seen]]) -> list[str]:
    """Faults and controls of which nothing was seen."""
    return [f"{name}: never run" for name in {**FAULTS, **CONTROLS} if name not in results]


def judge(results: Mapping[str, Mapping[str, Seen]]) -> list[str]:
    """What is not as it must be: a fault missed or named by another check, a false alarm."""
    problems = []
    for name, fault in FAULTS.items():
        seen = results.get(name, {})
        first = fault.before or fault.live
        problems += _problems(name, first, seen.get("before"))
        if fault.before is not None:
            problems += _problems(f"{name}, live", fault.live, seen.get("live"))
    for name in CONTROLS:
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


def write_table(results: Results) -> None:
    text = DOCS.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    DOCS.write_text(f"{text[:begin]}\n{render(results)}\n{text[end:]}", encoding="utf-8")


def render(results: Mapping[str, Mapping[str, Seen]]) -> str:
    """The table, for Markdown."""
    healthy = results["plain"]["before"] if "plain" in results else None
    lines = [
        "| fault | without draftgate | caught at, after | the user reads |",
        "|---|---|---|---|",
    ]
    for name, fault in FAULTS.items():
        if name not in results:
            continue
        seen = results[name]
        live = seen.get("live", seen["before"])
        stages = [f"{STAGES.get(s.test or '', s.test)}, {s.seconds:.0f} s" for s in seen.values()]
        where = stages[0] + "".join(f"; without preflight: {stage}" for stage in stages[1:])
        sentences = "<br>".join(dict.fromkeys(_sentence(s) for s in seen.values()))
        lines.append(f"| {fault.what} | {_without(live, healthy)} | {where} | {sentences} |")
    lines += ["", "| healthy control | acceptance length | red tests |", "|---|---|---|"]
    for name, control in CONTROLS.items():
        if name in results:
            seen_ = results[name]["before"]
            lines.append(f"| {control.what} | {seen_.length:.3f} | {seen_.test or 'none'} |")
    return "\n".join(lines)


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
    text = text.replace("|", "\\|")
    return text if len(text) <= LONGEST else text[: LONGEST - 4] + " ..."
