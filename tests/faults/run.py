"""Runs the suite on one planted fault as a user does, and reads what came first."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

from draftgate.diagnosis.conclusion import conclude_server
from draftgate.measure.record import BootRecord
from draftgate.measure.record_file import read_record, write_record
from draftgate.measure.samples import DraftAlone
from draftgate.models.location import locate
from draftgate.preflight.capture import name_layers

from tests.conftest import ROOT
from tests.faults.catalogue import PLUGIN, START, Fault
from tests.faults.pairs import Pair

PROFILE = """
[target]
path = "{target}"
[drafts.planted]
path = "{draft}"
{asked}
[[servers]]
draft = "planted"
devices = "{device}"
algorithm = "{algorithm}"
num_steps = {steps}
topk = {topk}
num_draft_tokens = {tokens}
acceptance_floor = {floor}
env = {env}
"""
ACCEPTED = 5
"""Sessions that the gate needs before it judges."""


@dataclass(frozen=True)
class Seen:
    """What one run showed: the first red test (None: all green), after how many seconds of tests,
    its message; and of the server whether it started, its acceptance length, a hash of what it
    said, the layers its draft was fed, what the draft did alone and what follows from it."""

    test: str | None
    seconds: float
    message: str
    started: bool
    length: float | None
    said: str | None
    fed: str | None = None
    alone: dict[str, float] | None = None
    concluded: str | None = None


def run(pair: Pair, name: str, folder: Path, *, preflight: bool) -> Seen:
    """Run the suite once on one server with a fault planted; what it leaves is in `folder`."""
    fault = pair.planted[name]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_profile(pair, fault, folder)
    if fault.timed:
        _accept_healthy_sessions(pair, folder)
    return _run(pair, folder, preflight=preflight, timed=fault.timed)


def _run(pair: Pair, folder: Path, *, preflight: bool, timed: bool, name: str = "run") -> Seen:
    artifacts, report = folder / name, folder / f"{name}.xml"
    chosen = ["not pair"] * (not preflight) + ["not throughput"] * (not timed)
    command = [
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/suite"),
        *("-m", pair.device),
        *("--dg-profiles", str(folder / "planted.toml"), "--dg-profile", "planted"),
        *("--dg-artifacts", str(artifacts), "--dg-baselines", str(folder / "baselines")),
        *("--junitxml", str(report), "-k", " and ".join(chosen)),
        *(() if preflight else ("--dg-no-preflight",)),
        *(("-p", "tests.faults.replayed") if pair.replayed else ()),
    ]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment = {
        **inherited,
        # SGLang itself may lie on the caller's.
        "PYTHONPATH": os.pathsep.join(filter(None, [str(PLUGIN), inherited.get("PYTHONPATH")])),
        **({"CUDA_VISIBLE_DEVICES": ""} if pair.device == "cpu" else {}),
    }
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return _read(report, artifacts)


def _read(report: Path, artifacts: Path) -> Seen:
    seconds, first = 0.0, None
    for case in ElementTree.parse(report).iter("testcase"):
        if first is None:
            seconds += float(case.get("time", 0))
        for red in (*case.iter("failure"), *case.iter("error")):
            if first is None:
                test = (case.get("name") or "").partition("[")[0]
                text = (red.text or "").strip()
                boot = text.startswith(("Server", "Boot", "ForeignServer"))
                first = (START if boot else test, text)
    (path,) = artifacts.rglob("record.json")
    server = next(iter(read_record(path).servers.values()), None)
    boot = server.last if server else BootRecord(0)
    sample, alone = boot.acceptance, boot.alone
    return Seen(
        test=first[0] if first else None,
        seconds=round(seconds, 1),
        message=_told(first[1]) if first else "",
        started=boot.boot_s is not None,
        length=sample.length if sample else None,
        said="".join(p.output_sha256[:4] for p in sample.prompts) if sample else None,
        fed=name_layers(boot.layers.fed) if boot.layers else None,
        alone=_lengths(alone) if alone else None,
        concluded=str(conclude_server(server)).splitlines()[0] if server and alone else None,
    )


def _lengths(alone: DraftAlone) -> dict[str, float]:
    """Acceptance lengths on the same prompts: of the server, of its draft alone on what it was fed
    and on the layers it was trained on."""
    lengths = {
        "server": alone.server_length,
        "fed": alone.fed_length,
        "right": alone.right_length,
    }
    return {name: round(length, 4) for name, length in lengths.items() if length is not None}


def _told(text: str) -> str:
    """A message without what differs from machine to machine: paths, and the lines that are all
    paths."""
    lines = [line.strip() for line in text.splitlines()]
    kept = [line for line in lines if not line.startswith(("evidence:", "log:", "command:"))]
    return "\n".join(re.sub(r"(?<![\w:])/\S*/", "", line) for line in kept)


def write_profile(pair: Pair, fault: Fault, folder: Path) -> None:
    target = locate(pair.target).folder
    draft = locate(f"builtin:{fault.draft}").folder
    assert target is not None
    assert draft is not None
    if fault.plant_target is not None:
        target = fault.plant_target(target, folder / "target")
    env = ", ".join(f'{name} = "{value}"' for name, value in fault.env.items())
    steps, topk, tokens = fault.numbers
    (folder / "planted.toml").write_text(
        PROFILE.format(
            target=target,
            asked=pair.asked,
            device=pair.device,
            draft=fault.plant(draft, folder / "draft"),
            algorithm=fault.algorithm,
            steps=steps,
            topk=topk,
            tokens=tokens,
            floor=fault.floor,
            env="{ " + env + " }",
        ),
        encoding="utf-8",
    )


def _accept_healthy_sessions(pair: Pair, folder: Path) -> None:
    """File one healthy session, at the accepted pace, as many times as the gate asks for."""
    kept = (folder / "planted.toml").read_text(encoding="utf-8")
    write_profile(pair, pair.controls["paced"], folder)
    _run(pair, folder, preflight=True, timed=True, name="accepted")
    (folder / "planted.toml").write_text(kept, encoding="utf-8")
    (path,) = (folder / "accepted").rglob("record.json")
    record = read_record(path)
    for number in range(ACCEPTED):
        session = f"{record.session[:-4]}{number:04d}"
        copy = path.with_name(f"{session}.json")
        write_record(replace(record, session=session), copy)
        subprocess.run(
            [
                *(sys.executable, "-m", "draftgate.cli", "accept", str(copy)),
                *("--reason", "healthy", "--baselines", str(folder / "baselines")),
            ],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )


def to_json(results: dict[str, dict[str, Seen]]) -> str:
    plain = {
        name: {kind: seen.__dict__ for kind, seen in kinds.items()}
        for name, kinds in results.items()
    }
    return json.dumps(plain, indent=1) + "\n"
