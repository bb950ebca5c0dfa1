"""Every fault of a server's life: how it is injected, the error it must end in, what that leaves.

A case runs a stand-in server through the code that users run. What it yields, an `Ending`, is
asserted by tests/unit/engine/test_server_faults.py and printed into docs/reliability.md by
`python -m tests.reliability.page`.
"""

from __future__ import annotations

import contextlib
import pickle
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from draftgate.client import Client, Prompt
from draftgate.engine import process as process_module
from draftgate.engine.boot import launch
from draftgate.engine.gpus import Gpu
from draftgate.engine.interpreter import inspect_interpreter
from draftgate.engine.plan import Launch, plan_launch
from draftgate.engine.ports import is_free
from draftgate.engine.process import marked_processes
from draftgate.engine.server import RunningServer
from draftgate.errors import (
    BadReply,
    BootTimeout,
    DraftgateError,
    EngineError,
    ForeignServer,
    MissingCounters,
    RequestFailed,
    ServerDied,
    ServerExited,
    ServerFailed,
    TeardownError,
)
from draftgate.models.location import locate

from tests.reliability.fake_nvml import FakeNvml
from tests.specs import spec_of

ROOT = Path(__file__).parents[2]
GPU = Gpu(0, "GPU-aa", "NVIDIA H200", 143771, "0")
TOKENS = 16


class Scene:
    """One stand-in server in a folder of its own."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder = folder
        self.python = python
        self.artifacts = folder / "artifacts"
        self.began: float | None = None
        """`time.monotonic()` of the fault, where the server does not leave it itself."""
        self.launch: Launch | None = None

    def plan(self, fault: str, *, gpus: tuple[Gpu, ...] = (), **changes: Any) -> Launch:
        name = fault.replace("@", "-")
        values: dict[str, Any] = {"id": f"tiny/{name}/cpu", "device": "cpu", "cuda_graphs": False}
        spec = spec_of(**values | changes, env=(("FAKE_SGLANG_FAULT", fault),))
        self.launch = plan_launch(
            spec,
            interpreter=inspect_interpreter(self.python),
            target_path=str(locate("builtin:tiny").folder),
            draft_path=str(locate("builtin:tiny-eagle3").folder) if spec.speculation else None,
            artifacts=self.artifacts,
            gpus=gpus,
        )
        return self.launch

    @contextmanager
    def serving(self, fault: str, **more: Any) -> Iterator[RunningServer]:
        """The booted server; ended with the block."""
        server = launch(self.plan(fault, **more))
        try:
            yield server
        finally:
            server.stop()

    def note_begin(self) -> None:
        self.began = time.monotonic()

    def processes_left(self) -> list[int]:
        """Processes of the server that live, its grandchildren too."""
        assert self.launch is not None
        noted = _read(self.artifacts / "pids").split()
        return sorted(
            {*marked_processes(self.launch.served_model_name), *filter(_runs, map(int, noted))}
        )

    def ports_left(self) -> list[int]:
        """Ports of the server that are still taken."""
        assert self.launch is not None
        second = _read(self.artifacts / "second-port").split()
        return [port for port in (self.launch.port, *map(int, second)) if not is_free(port)]


@dataclass(frozen=True)
class Ending:
    """How a case ended: the error (None: a ready server, ended as always) and what it left."""

    error: DraftgateError | None
    notice_s: float | None
    """From the fault to the error, everything cleaned up; None where nothing was to be noticed."""
    processes: list[int]
    ports: list[int]


@dataclass(frozen=True)
class Case:
    """A fault, as docs/reliability.md names it, and what must come of it."""

    name: str
    error: type[DraftgateError] | None
    words: tuple[str, ...]
    """What the message must say."""
    act: Callable[[Scene], object]

    @property
    def expected(self) -> str:
        return self.error.__name__ if self.error else "none: it is served"


def run_case(case: Case, folder: Path, python: Path) -> Ending:
    """Inject one fault in `folder`; whatever it ends in is returned, not raised.

    `python` holds the stand-in. Made before other threads start processes: a program that a forked
    child still has open for writing cannot be run.
    """
    scene = Scene(folder, python)
    error: DraftgateError | None = None
    try:
        case.act(scene)
    except DraftgateError as found:
        error = found
    ended = time.monotonic()
    began = scene.began or float(_read(scene.artifacts / "fault-began") or 0)
    return Ending(
        error,
        ended - began if began and error is not None else None,
        scene.processes_left(),
        scene.ports_left(),
    )


def boot(fault: str, **changes: Any) -> Callable[[Scene], None]:
    """Boot a server with this fault, and end it if it becomes ready."""

    def act(scene: Scene) -> None:
        with scene.serving(fault, **changes) as server:
            server.check_alive()

    return act


def generate(fault: str, timeout_s: float = 30.0) -> Callable[[Scene], None]:
    """Boot a healthy server, and then have it generate with this fault."""

    def act(scene: Scene) -> None:
        with scene.serving(f"{fault}@1") as server:
            client = Client(
                server.base_url,
                check_alive=server.check_alive,
                speculating=True,
                timeout_s=timeout_s,
            )
            client.generate([Prompt("p0", input_ids=(1, 2, 3))], max_new_tokens=TOKENS)

    return act


def meet_a_stranger(scene: Scene) -> None:
    """Somebody else takes the port after it was found free; ours never gets to listen."""
    plan = scene.plan("hang")
    strangers: list[subprocess.Popen[bytes]] = []

    def come(phase: str, elapsed_s: float) -> None:
        if not strangers:
            command = [*plan.command, "--served-model-name", "a-stranger"]
            strangers.append(subprocess.Popen(command, cwd=scene.folder, stderr=subprocess.DEVNULL))
            scene.note_begin()

    try:
        launch(plan, come)
    finally:
        for stranger in strangers:
            stranger.kill()  # its scheduler ends with its input
            stranger.wait()


def hold_gpu_memory(scene: Scene) -> None:
    """NVML goes on naming the server's process after it was reaped."""
    nvml = FakeNvml()
    with (
        mock.patch.dict(sys.modules, pynvml=nvml),
        mock.patch.object(process_module, "GPU_RELEASE_LIMIT_S", 1.0),
    ):
        server = launch(scene.plan("none", device="gpu", gpus=(GPU,)))
        nvml.processes["GPU-aa"] = [(server.process.pid, 13630)]
        nvml.used["GPU-aa"] += 13630
        scene.note_begin()
        server.stop()


def fill_the_disk(scene: Scene) -> None:
    """No file may grow beyond 20 kB, so that /server_info (45 kB) cannot be kept."""
    plan = scene.plan("none")
    with subprocess.Popen(
        [sys.executable, "-m", "tests.reliability.server_faults"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        scene.note_begin()
        told, _ = child.communicate(pickle.dumps(plan))
    raise pickle.loads(told)


def launch_on_a_full_disk() -> None:
    """The child of the above: launches what it is given and hands back the error."""
    plan = pickle.load(sys.stdin.buffer)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        launch(plan).stop()
    except EngineError as error:
        sys.stdout.buffer.write(pickle.dumps(error))


def step_the_clock(scene: Scene) -> None:
    """The wall clock jumps by an hour, to and fro, at every look at it."""
    real, looks = time.time, [0]

    def jumping() -> float:
        looks[0] += 1
        return real() + (3600 if looks[0] % 2 else -3600)

    with mock.patch.object(time, "time", jumping):
        generate("none")(scene)


def _runs(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    state = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return bool(state) and state[0] not in {"Z", "X"}


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""


CASES = (
    Case(
        "syntax error in a model file",
        ServerExited,
        ("SyntaxError: invalid syntax (/srv/sglang/srt/models/broken.py:2: def f(:)",),
        boot("syntax"),
    ),
    Case("exits with 0 while it boots", ServerExited, ("exit code 0",), boot("exit_0")),
    Case(
        "exits with 3 while it boots",
        ServerExited,
        ("exit code 3", "mat1 and mat2 shapes cannot be multiplied", "hint: "),
        boot("exit_3"),
    ),
    Case("killed while it boots", ServerExited, ("killed by SIGKILL",), boot("killed")),
    Case(
        "killed by a signal without a name",
        ServerExited,
        ("killed by signal 37",),
        boot("killed_by_real_time_signal"),
    ),
    Case(
        "hangs before it listens (limit 2 s)",
        BootTimeout,
        ("within 2 s: nobody listens on the port yet",),
        boot("hang", boot_timeout_s=2.0),
    ),
    Case(
        "hangs after /health (limit 4 s)",
        BootTimeout,
        ("within 4 s: /server_info has not answered for ",),
        boot("hang_after_health", boot_timeout_s=4.0),
    ),
    Case(
        "a stranger answers on its port",
        ForeignServer,
        ("it serves 'a-stranger'", "ss -ltnp"),
        meet_a_stranger,
    ),
    Case(
        "a web page answers on its port",
        ForeignServer,
        ("/server_info answered no JSON: '<html>It works!</html>'",),
        boot("web_page"),
    ),
    Case(
        "scheduler killed while it boots, /health stays 200",
        ServerFailed,
        ("sglang::schedul", "ended while the main process"),
        boot("scheduler_killed"),
    ),
    Case(
        "scheduler killed in a request, /health stays 200",
        ServerDied,
        ("sglang::schedul", "ended while the main process"),
        generate("scheduler_killed"),
    ),
    Case("killed in a request", ServerDied, ("killed by SIGKILL",), generate("killed")),
    Case(
        "/health is 200, the first generation never ends (limit 4 s)",
        BootTimeout,
        ("within 4 s: /generate has not answered for ",),
        boot("silent", boot_timeout_s=4.0),
    ),
    Case(
        "/health is 200, a later generation never ends (limit 2 s)",
        RequestFailed,
        ("/generate: no answer within 2 s", "it hangs"),
        generate("silent", timeout_s=2.0),
    ),
    Case("503 for 20 s, then ready", None, (), boot("starting_20_s")),
    Case("200 kB of log", None, (), boot("log_200_kb")),
    Case("20 MB of log", None, (), boot("log_20_mb")),
    Case("20 MB of log without a newline", None, (), boot("one_line_of_20_mb")),
    Case(
        "exits with 3 after 20 MB of log",
        ServerExited,
        ("exit code 3", "RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
        boot("exit_3_after_20_mb"),
    ),
    Case("binary junk in the log", None, (), boot("junk")),
    Case(
        "exits with 3 after binary junk in the log",
        ServerExited,
        ("exit code 3", "RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
        boot("exit_3_after_junk"),
    ),
    Case("ignores SIGTERM", None, (), boot("ignores_sigterm")),
    Case("grandchild in a session of its own on a second port", None, (), boot("grandchild")),
    Case(
        "the same, without the environment it could be known by",
        None,
        (),
        boot("grandchild_without_environment"),
    ),
    Case(
        "GPU memory held after the exit (limit 1 s)",
        TeardownError,
        ("GPU memory: 13630 MiB more of GPU 0 in use than before", "holds 13630 MiB of GPU 0"),
        hold_gpu_memory,
    ),
    Case(
        "soft watchdog twice",
        ServerFailed,
        ("Scheduler watchdog timeout", "hint: nothing moved for the watchdog's time"),
        boot("soft_watchdog"),
    ),
    Case(
        "out of memory",
        ServerFailed,
        ("torch.OutOfMemoryError: CUDA out of memory.", "hint: the device ran out of memory"),
        boot("out_of_memory"),
    ),
    Case(
        "first reply is truncated JSON",
        ServerFailed,
        ("/generate answered no JSON: ",),
        boot("truncated_json"),
    ),
    Case(
        "a later reply is truncated JSON",
        BadReply,
        ("/generate answered no JSON",),
        generate("truncated_json"),
    ),
    Case(
        "a reply without counters",
        MissingCounters,
        ("no spec_verify_ct > 0",),
        generate("missing_counters"),
    ),
    Case(
        "first reply with too many tokens",
        ServerFailed,
        ("the first generation returned [17] tokens, expected 16",),
        boot("too_many_tokens"),
    ),
    Case(
        "a later reply with too many tokens",
        BadReply,
        ("asked for 16 tokens", "counts 17 and holds 17"),
        generate("too_many_tokens"),
    ),
    Case("connection reset in mid-stream", RequestFailed, ("/generate: ",), generate("reset")),
    Case("disk of the log full", ServerExited, ("exit code 1",), boot("disk_full")),
    Case(
        "disk of the artifacts full",
        EngineError,
        ("its artifacts cannot be written to", "Make room there"),
        fill_the_disk,
    ),
    Case("the wall clock jumps", None, (), step_the_clock),
)

if __name__ == "__main__":
    launch_on_a_full_disk()
