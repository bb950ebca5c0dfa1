"""The gate against losses planted in a real server: ``python -m tests.gate.proof``.

::

    python -m tests.gate.proof screen [PERCENT ...]   sessions of the suite, judged by accepted ones
    python -m tests.gate.proof ab [PERCENT ...]       draftgate ab, pairs of boots
    python -m tests.gate.proof --pace 200 ...         steps of at least 200 ms
    python -m tests.gate.proof --server llama-8b-shape/eagle3-s3k1d4/graph ...     on a GPU

`screen` accepts sessions of one server until there is a limit, runs five more that must not be red,
and one for each planted percentage. `ab` runs one A/B for each. Both print a Markdown table, and
both take long: every session and every pair boots real servers. With a pace well above what a step
takes, the noise of a busy machine is slept away (CPU engine). See tests/gate/slow_decode.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from draftgate.gate.screen import MIN_SESSIONS
from draftgate.measure.record import ServerRecord
from draftgate.measure.record_file import read_record
from draftgate.measure.verdict import Metric, Status, Verdict

from tests.gate.slow_decode import PACE_MS, PERCENT, SITE

ROOT = Path(__file__).parents[2]
PROFILE = Path(__file__).parent / "proof.toml"
SERVER = "proof/eagle3-s5k1d6/cpu"
RERUNS = 5
MOST_BASELINES = 2 * MIN_SESSIONS
PLANTED = (0.0, 3.0, 5.0, 10.0, 20.0)
METRICS = (Metric.THROUGHPUT, Metric.STEP_RATE, Metric.DEVICE_STEP_RATE)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gate.proof")
    parser.add_argument("how", choices=("screen", "ab"))
    parser.add_argument("percent", type=float, nargs="*", default=PLANTED)
    parser.add_argument("--server", default=SERVER, metavar="ID", help="default: %(default)s")
    parser.add_argument(
        "--pace", type=float, default=0.0, metavar="MS", help="what a step takes at least (CPU)"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where records and logs stay")
    arguments = parser.parse_args()
    if arguments.pace and not arguments.server.endswith("/cpu"):
        parser.error(f"--pace: {arguments.server} is no server of the CPU engine")
    os.environ[PACE_MS] = str(arguments.pace)  # the servers inherit it
    with tempfile.TemporaryDirectory() as passing:
        folder = (arguments.keep or Path(passing)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            parser.error(f"--keep {folder}: expected an empty folder")
        proof = Proof(arguments.server, folder)
        for row in getattr(proof, arguments.how)(arguments.percent):
            sys.stdout.write(f"| {' | '.join(row)} |\n")
            sys.stdout.flush()
    return 0


@dataclass(frozen=True)
class Proof:
    """The server that is slowed, and the folder of what is measured."""

    server: str
    folder: Path

    def screen(self, planted: list[float]) -> Iterator[tuple[str, ...]]:
        """A row for each session: what was planted, and what the suite said."""
        names = (metric.words for metric in METRICS)
        yield ("session", "planted", "tok/s", *names, "test run", "verify steps")
        yield ("---",) * (5 + len(METRICS))
        for number in range(MOST_BASELINES):
            path, row = self._session(f"baseline-{number}", 0)
            throughput = _judged(self._read(path), Metric.THROUGHPUT)
            if throughput is None or throughput.status != Status.RECORDING:
                yield ("rerun", *row)
                break
            is_accepted = accept(path, self.folder / "baselines")
            yield ("accepted" if is_accepted else "refused as a baseline", *row)
        for number in range(1, RERUNS):
            yield ("rerun", *self._session(f"rerun-{number}", 0)[1])
        for percent in planted:
            if percent:
                yield ("planted", *self._session(f"planted-{percent:g}", percent)[1])

    def _session(self, name: str, percent: float) -> tuple[Path, tuple[str, ...]]:
        """One session of the suite on a slowed server: its record, and what is shown of it."""
        profile, _, mode = self.server.partition("/")
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/suite"),
                *("-m", "cpu" if mode.endswith("/cpu") else "gpu", "--dg-profiles", str(PROFILE)),
                *("--dg-profile", profile, "--dg-server", self.server),
                *("--dg-artifacts", str(self.folder / name)),
                *("--dg-baselines", str(self.folder / "baselines")),
                *("--dg-server-python", str(slowed(self.folder, percent))),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        (path,) = (self.folder / name).rglob("record.json")
        server = self._read(path)
        acceptance = server.last.acceptance
        return path, (
            f"{percent:g} %",
            f"{server.tok_s or 0:.1f}",
            *(_verdict(server, metric) for metric in METRICS),
            _outcome(done),
            str(acceptance.verify_steps) if acceptance else "-",
        )

    def ab(self, planted: list[float]) -> Iterator[tuple[str, ...]]:
        """A row for each planted percentage: what `draftgate ab` said."""
        yield ("planted", "tok/s", "steps/s", "exit", "verify steps, reference and candidate")
        yield ("---",) * 5
        for percent in planted:
            artifacts = self.folder / f"ab-{percent:g}"
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "draftgate.cli", "ab", "--profiles", str(PROFILE)),
                    *("--server", self.server),
                    *("--reference", str(slowed(self.folder, 0)), "--candidate"),
                    *(str(slowed(self.folder, percent)), "--artifacts", str(artifacts)),
                ],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
                check=False,
            )
            said = dict(re.findall(r"^(throughput|verify steps): (.*)$", done.stdout, re.MULTILINE))
            sys.stderr.write(done.stdout)
            steps = [
                _round_steps(self._read(path))
                for path in sorted(artifacts.rglob("record.json"), reverse=True)
            ]
            yield (
                f"{percent:g} %",
                *(said.get(metric, "-") for metric in ("throughput", "verify steps")),
                str(done.returncode),
                ", ".join(steps),
            )

    def _read(self, path: Path) -> ServerRecord:
        return read_record(path).servers[self.server]


def slowed(folder: Path, percent: float) -> Path:
    """An interpreter whose servers take `percent` % longer for each decode step."""
    python = folder / f"python-{percent:g}"
    python.write_text(
        f"#!/bin/sh\nexport {PERCENT}={percent:g}\n"
        f"export PYTHONPATH={shlex.quote(str(SITE))}${{PYTHONPATH:+:$PYTHONPATH}}\n"
        f'exec {shlex.quote(sys.executable)} "$@"\n'
    )
    python.chmod(0o755)
    return python


def accept(record: Path, baselines: Path) -> bool:
    """Whether `draftgate accept` takes it: not where the machine was too busy to settle."""
    command = [sys.executable, "-m", "draftgate.cli", "accept", str(record)]
    options = ["--reason", "proof", "--baselines", str(baselines)]
    return (
        subprocess.run(
            [*command, *options], cwd=ROOT, check=False, stdout=subprocess.DEVNULL
        ).returncode
        == 0
    )


def _outcome(done: subprocess.CompletedProcess[str]) -> str:
    """What a test run came to, and which tests made it red."""
    red = re.findall(r"^(?:FAILED|ERROR) \S*::(\w+)", done.stdout, re.MULTILINE)
    words = {0: "green", 1: "red"}.get(done.returncode, f"exit {done.returncode}")
    return f"{words}: {', '.join(dict.fromkeys(red))}" if red else words


def _verdict(server: ServerRecord, metric: Metric) -> str:
    """The verdict, with the change and its limit where there is one."""
    found = _judged(server, metric)
    if found is None:
        return "-"
    change = "" if found.effect is None else f" {found.effect:+.1%}"
    if found.effect is None or not found.limit or not found.value:
        return f"{found.status}{change}"
    limit = found.limit / found.value * (1 + found.effect) - 1
    return f"{found.status}{change} (limit {limit:+.1%})"


def _judged(server: ServerRecord, metric: Metric) -> Verdict | None:
    return next((v for v in reversed(server.verdicts) if v.metric == metric), None)


def _round_steps(server: ServerRecord) -> str:
    rounds = [r.verify_steps or 0 for sample in server.throughputs for r in sample.rounds]
    return "/".join(map(str, sorted(set(rounds))))


if __name__ == "__main__":
    sys.exit(main())
