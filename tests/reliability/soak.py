"""Boot and end the stand-in many times: ``python -m tests.reliability.soak 200``."""

from __future__ import annotations

import gc
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from draftgate.engine.boot import launch
from draftgate.engine.interpreter import inspect_interpreter
from draftgate.engine.plan import plan_launch
from draftgate.engine.ports import is_free
from draftgate.engine.process import marked_processes
from draftgate.models.location import locate

from tests.fake_sglang.interpreter import make_interpreter
from tests.specs import spec_of


@dataclass(frozen=True)
class Soak:
    """What there was more of after the last round than after the first, and how long it took."""

    rounds: int
    descriptors: int
    threads: int
    processes: int
    ports: int
    seconds: float
    slowest_boot_s: float

    def __str__(self) -> str:
        return (
            f"{self.rounds} boots and teardowns in {self.seconds:.0f} s "
            f"(slowest boot {self.slowest_boot_s:.2f} s): left {self.descriptors} descriptors, "
            f"{self.threads} threads, {self.processes} processes, {self.ports} ports"
        )


def soak(rounds: int, folder: Path, tell: Callable[[str], object] = lambda line: None) -> Soak:
    """Boot and end the stand-in `rounds` times, after one round that is not counted."""
    me = psutil.Process()
    interpreter = inspect_interpreter(make_interpreter(folder / "fake_sglang"))
    spec = spec_of(id="tiny/none/cpu", device="cpu", cuda_graphs=False, speculation=None)
    marks, ports, boots = [], [], []
    before = (0, 0)
    begin = time.monotonic()
    for number in range(rounds + 1):
        plan = plan_launch(
            spec,
            interpreter=interpreter,
            target_path=str(locate("builtin:tiny").folder),
            draft_path=None,
            artifacts=folder / "artifacts",
        )
        server = launch(plan)
        server.stop()
        marks.append(plan.served_model_name)
        ports.append(plan.port)
        boots.append(server.boot_s)
        if number == 0:
            gc.collect()  # what ran before in this process may still hold files
            before = (me.num_fds(), threading.active_count())
            begin = time.monotonic()
        elif number % 20 == 0:
            tell(f"{number} of {rounds}\n")
    return Soak(
        rounds=rounds,
        descriptors=me.num_fds() - before[0],
        threads=threading.active_count() - before[1],
        processes=len(me.children(recursive=True)) + sum(len(marked_processes(m)) for m in marks),
        ports=sum(not is_free(port) for port in ports),
        seconds=time.monotonic() - begin,
        slowest_boot_s=max(boots),
    )


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        found = soak(rounds, Path(folder), sys.stdout.write)
    sys.stdout.write(f"{found}\n")
    sys.exit(any((found.descriptors, found.threads, found.processes, found.ports)))


if __name__ == "__main__":
    main()
