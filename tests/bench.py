"""What the suite itself costs, measured on real CPU servers: `tox -e bench`.

Prints one line a figure, with its target. Nothing fails here: speed is measured, never asserted.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import psutil
from draftgate.catalog.select import load_profiles
from draftgate.client import Client, Prompt
from draftgate.engine.boot import launch
from draftgate.engine.interpreter import inspect_interpreter
from draftgate.engine.plan import plan_launch
from draftgate.engine.server import RunningServer
from draftgate.errors import ServerDied
from draftgate.gate.store import load_accepted
from draftgate.gate.throughput import judge_speed
from draftgate.measure.record import Accepted, Record
from draftgate.measure.record_file import accepted, read_record, write_record
from draftgate.models.location import BUILTIN_FOLDER

ROOT = Path(__file__).parent.parent
MANY = 10_000
SERVERS = ("tiny/none/cpu", "tiny/eagle3-s5k1d6/cpu")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        record = run_suite(Path(folder))
        lines = [untouched_figure(Path(folder) / "empty"), *figures(record)]
        lines += baselines_figures(record, Path(folder) / "baselines")
        lines += [
            (
                f"death of the {victim} noticed after",
                f"{death_noticed_s(Path(folder) / victim, victim):.3f} s",
                "<= 0.5 s",
            )
            for victim in ("server", "scheduler")
        ]
    for what, measured, target in lines:
        sys.stdout.write(f"{what:<58} {measured:>16}   target {target}\n")


def run_suite(artifacts: Path) -> Record:
    """Run the suite on two servers as a user does, and read its record."""
    chosen = [word for server in SERVERS for word in ("--dg-server", server)]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "tests/suite", "-m", "cpu", *chosen),
            *("--dg-artifacts", str(artifacts)),
        ],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    sys.stdout.write(done.stdout[-2000:] if done.returncode else "")
    (path,) = artifacts.rglob("record.json")
    return read_record(path)


def figures(record: Record) -> list[tuple[str, str, str]]:
    lines = [("pytest start to first launch", f"{record.first_launch_s} s", "<= 2 s")]
    for server in record.servers.values():
        (boot_,) = server.boots
        assert boot_.throughput is not None
        rounds = boot_.throughput.rounds
        seconds = sum(round_.seconds for round_ in rounds)
        own = sum(round_.server_s or float("nan") for round_ in rounds)
        lines += [
            (f"{server.id}: ready to first request", f"{boot_.first_request_s} s", "<= 0.25 s"),
            (f"{server.id}: suite tok/s over the server's own", f"{own / seconds:.3f}", ">= 0.97"),
            (f"{server.id}: boots", f"{len(server.boots)}", "1"),
        ]
    return lines


def untouched_figure(empty: Path, pairs: int = 10) -> tuple[str, str, str]:
    """What the plugin costs a session that asks for nothing: runs with and without it in turns."""
    empty.mkdir()
    took_s: dict[tuple[str, ...], list[float]] = {(): [], ("-p", "no:draftgate.plugin"): []}
    for _ in range(pairs):
        for options, seconds in took_s.items():
            words = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options]
            begin = time.perf_counter()
            subprocess.run(words, cwd=empty, check=False, capture_output=True)
            seconds.append(time.perf_counter() - begin)
    with_it_s, without_s = map(min, took_s.values())  # what others do meanwhile only adds
    cost_ms = 1000 * (with_it_s - without_s)
    return "a session that asks for nothing", f"{cost_ms:.0f} ms more", "<= 50 ms"


def baselines_figures(record: Record, baselines: Path) -> list[tuple[str, str, str]]:
    """What judging against a folder of `MANY` accepted records costs."""
    filed = accepted(record, Accepted("a figure", tuple(record.servers)))
    folder = baselines / record.machine.machine_class
    folder.mkdir(parents=True)
    first = folder / f"{filed.session}.json"
    write_record(filed, first)
    text = first.read_bytes()
    for number in range(1, MANY):
        name = f"2026-01-01T00-00-00-{number:05}"
        content = text.replace(filed.session.encode(), name.encode())
        (folder / f"{name}.json").write_bytes(content)

    def judge() -> None:
        found = load_accepted(folder, record.servers)
        for spec_id in record.servers:
            judge_speed(record, spec_id, found)

    begin = time.perf_counter()
    judge()
    seconds = time.perf_counter() - begin
    tracemalloc.start()
    judge()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    what = f"{MANY} accepted records: load and judge"
    return [
        (what, f"{seconds:.2f} s", "<= 2 s"),
        (f"{what}, peak memory", f"{peak / 2**20:.0f} MiB", "<= 100 MiB"),
    ]


def death_noticed_s(artifacts: Path, victim: str) -> float:
    """Seconds from a kill -9 in the middle of a request to the error in the caller."""
    spec = next(s for s in load_profiles()["tiny"].servers if s.id == "tiny/none/cpu")
    artifacts.mkdir()
    server = launch(
        plan_launch(
            spec,
            interpreter=inspect_interpreter(Path(sys.executable)),
            target_path=str(BUILTIN_FOLDER / "tiny"),
            draft_path=None,
            artifacts=artifacts,
        )
    )
    try:
        return _kill_in_a_request(server, _victim(server, victim))
    finally:
        server.stop()


def _victim(server: RunningServer, victim: str) -> Callable[[], None]:
    main_process = psutil.Process(server.process.pid)
    if victim == "server":
        return main_process.kill
    return next(p for p in main_process.children(recursive=True) if "scheduler" in p.name()).kill


def _kill_in_a_request(server: RunningServer, kill: Callable[[], None]) -> float:
    client = Client(server.base_url, check_alive=server.check_alive, speculating=False)
    killed: list[float] = []

    def kill_soon() -> None:
        time.sleep(0.5)
        killed.append(time.monotonic())
        kill()

    threading.Thread(target=kill_soon).start()
    try:
        client.generate([Prompt("long", tuple(range(2, 26)))], max_new_tokens=900)
    except ServerDied:
        return time.monotonic() - killed[0]
    raise AssertionError("the request ended before the kill")


if __name__ == "__main__":
    main()
