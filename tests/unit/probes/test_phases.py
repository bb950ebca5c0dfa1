"""Timing decode steps: the timer on workers called as SGLang calls them, and its reader."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from draftgate.errors import ProbeError
from draftgate.probes.hooks import PHASES, probe_flags
from draftgate.probes.observe import armed
from draftgate.probes.records import Step, read_steps

TOOK_S = 0.002


@pytest.fixture
def phases(in_server: Any) -> Any:
    """The module `draftgate_probes.phases`, as a server imports it."""
    return __import__("draftgate_probes.phases", fromlist=["StepTimer"])


class Batch:
    """A ScheduleBatch as far as the timer reads one."""

    on_gpu = False

    def __init__(self, mode: str, size: int = 1) -> None:
        self.forward_mode = SimpleNamespace(is_decode=lambda: mode == "DECODE")
        self.reqs = [None] * size
        self.seq_lens = SimpleNamespace(is_cuda=self.on_gpu)


class Draft:
    def draft(self, batch: Batch) -> str:
        time.sleep(TOOK_S)
        return "tree"

    def _draft_extend_for_decode(self, batch: Batch, result: str) -> None:
        time.sleep(TOOK_S)


class Worker:
    """Calls its parts through `self`, as EAGLEWorkerV2.forward_batch_generation does."""

    def __init__(self) -> None:
        self.draft_worker = Draft()

    def forward_batch_generation(self, batch: Batch) -> str:
        if not batch.forward_mode.is_decode():
            return "prefilled"
        result = self.verify(batch, self.draft_worker.draft(batch))
        self.draft_worker._draft_extend_for_decode(batch, result)
        return result

    def verify(self, batch: Batch, tree: str) -> str:
        time.sleep(2 * TOOK_S)
        return f"verified {tree}"


class WorkerWithoutVerify:
    draft_worker = Draft()

    def forward_batch_generation(self, batch: Batch) -> str:
        return "done otherwise"


@pytest.fixture
def scheduler(phases: Any, tmp_path: Path) -> Callable[..., Any]:
    """Makes a scheduler of a class of its own, with a timer in it."""

    def make(worker: Any, speculating: bool = True) -> Any:
        class Scheduler:
            model_worker = worker
            spec_algorithm = SimpleNamespace(is_none=lambda: not speculating)

            def run_batch(self, batch: Batch) -> str:
                return str(self.model_worker.forward_batch_generation(batch))

        phases.StepTimer(str(tmp_path)).install(Scheduler)
        return Scheduler()

    return make


def generate(scheduler: Any, steps: int, size: int = 1) -> list[str]:
    """What a scheduler does with a prompt."""
    batches = [Batch("EXTEND", size), *(Batch("DECODE", size) for _ in range(steps))]
    return [scheduler.run_batch(batch) for batch in batches]


def timed(scheduler: Any, folder: Path, *prompts: int, size: int = 1) -> tuple[str, list[Step]]:
    with armed(folder) as run:
        for steps in prompts:
            generate(scheduler, steps, size)
    generate(scheduler, 1)
    return read_steps(folder, run)


def test_each_step_is_timed_by_phase_and_the_last_of_a_prompt_has_no_wall(
    scheduler: Any, tmp_path: Path
) -> None:
    clock, steps = timed(scheduler(Worker()), tmp_path, 5, 3, size=4)
    assert clock == "host"
    assert [step.wall_ms is None for step in steps] == [*[False] * 4, True, False, False, True]
    assert {step.batch_size for step in steps} == {4}
    for step in steps:
        assert list(step.phases_ms) == ["draft", "verify", "extend"]
        assert step.phases_ms["draft"] >= 1000 * TOOK_S
        assert step.phases_ms["verify"] >= 2000 * TOOK_S
        assert step.phases_ms["extend"] >= 1000 * TOOK_S
        assert step.wall_ms is None or step.wall_ms >= sum(step.phases_ms.values())


def test_without_speculation_the_pass_of_the_target_is_timed(
    scheduler: Any, tmp_path: Path
) -> None:
    _, steps = timed(scheduler(Worker(), speculating=False), tmp_path, 3)
    assert [list(step.phases_ms) for step in steps] == [["decode"]] * 3


def test_idle_it_leaves_the_workers_as_they_were(scheduler: Any, tmp_path: Path) -> None:
    worker = Worker()
    server = scheduler(worker)
    before = generate(server, 2)
    assert before == ["prefilled", "verified tree", "verified tree"]
    with armed(tmp_path):
        assert generate(server, 2) == before
        assert "verify" in vars(worker)
        assert "draft" in vars(worker.draft_worker)
    generate(server, 2)
    assert "verify" not in vars(worker)
    assert vars(worker.draft_worker) == {}


def test_many_steps_are_written_while_armed_and_none_is_lost(
    scheduler: Any, phases: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phases, "STEPS_A_RECORD", 4)
    server = scheduler(Worker())
    with armed(tmp_path) as run:
        generate(server, 10)
        assert len(read_steps(tmp_path, run)[1]) == 8
    generate(server, 1)
    assert len(read_steps(tmp_path, run)[1]) == 10


def test_a_release_without_the_methods_is_told_by_name_and_serves_on(
    scheduler: Any, tmp_path: Path
) -> None:
    server = scheduler(WorkerWithoutVerify())
    with armed(tmp_path) as run:
        assert generate(server, 2) == ["done otherwise"] * 3
    with pytest.raises(ProbeError, match=r"lacks the methods of verify \(.*WithoutVerify.verify\)"):
        read_steps(tmp_path, run)
    (path,) = tmp_path.glob("*.jsonl")
    assert path.read_text().count("\n") == 1


def test_an_error_of_the_timer_is_written_once_and_the_server_goes_on(
    scheduler: Any, phases: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(step: Any, phase: str) -> None:
        raise RuntimeError(f"no event for {phase}")

    worker = Worker()
    server = scheduler(worker)
    monkeypatch.setattr(phases.Step, "mark", fail)
    with armed(tmp_path) as run:
        assert generate(server, 3) == ["prefilled", *["verified tree"] * 3]
        assert "verify" not in vars(worker)
    with pytest.raises(ProbeError, match="scheduler failed .* RuntimeError: no event for draft"):
        read_steps(tmp_path, run)
    (path,) = tmp_path.glob("*.jsonl")
    assert path.read_text().count("\n") == 1
    monkeypatch.undo()
    assert len(timed(server, tmp_path, 2)[1]) == 2  # the next run is timed again


def test_an_error_of_the_server_passes_through(scheduler: Any, tmp_path: Path) -> None:
    class Broken(Worker):
        def verify(self, batch: Batch, tree: str) -> str:
            raise ValueError("the kernel's own")

    server = scheduler(Broken())
    with armed(tmp_path), pytest.raises(ValueError, match="the kernel's own"):
        generate(server, 1)


class Event:
    """A CUDA event: recorded now, passed by the device when `device` says so."""

    device: float = 0.0
    """Milliseconds the device has worked."""
    recorded: int = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        Event.recorded += 1
        self.at = float(Event.recorded)

    def query(self) -> bool:
        return Event.device >= self.at

    def synchronize(self) -> None:
        Event.device = max(Event.device, self.at)

    def elapsed_time(self, end: Event) -> float:
        if not (self.query() and end.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return end.at - self.at


def test_on_a_gpu_events_are_read_only_once_the_device_has_passed_them(
    scheduler: Any, phases: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phases.torch.cuda, "Event", Event)
    monkeypatch.setattr(phases, "STEPS_A_RECORD", 2)
    monkeypatch.setattr(Batch, "on_gpu", True)
    Event.recorded, Event.device = 0, 0.0
    server = scheduler(Worker())
    with armed(tmp_path) as run:
        generate(server, 4)  # the device has not begun
        assert not list(tmp_path.glob("*.jsonl"))
        Event.device = 100.0
        generate(server, 1)
        assert len(read_steps(tmp_path, run)[1]) == 2
    generate(server, 1)
    clock, steps = read_steps(tmp_path, run)
    assert (clock, len(steps)) == ("cuda", 5)
    assert {tuple(step.phases_ms.values()) for step in steps} == {(1.0, 1.0, 1.0)}


def test_the_hook_factory_puts_one_timer_into_the_scheduler(
    phases: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"folder": str(tmp_path)}
    monkeypatch.delitem(sys.modules, "sglang.srt.managers.scheduler", raising=False)
    assert phases.time_steps(config) is None
    assert "steps cannot be timed: KeyError('sglang.srt.managers.scheduler')" in caplog.text
    module = SimpleNamespace(Scheduler=type("Scheduler", (), {"run_batch": lambda *_: None}))
    monkeypatch.setitem(sys.modules, "sglang.srt.managers.scheduler", module)
    phases.time_steps(config)  # for the target
    first = module.Scheduler.run_batch
    phases.time_steps(config)  # for the draft
    assert module.Scheduler.run_batch is first
    assert isinstance(first.draftgate_timer, phases.StepTimer)


def test_the_flag_names_the_timer_for_every_server(phases: Any, tmp_path: Path) -> None:
    for speculating in (True, False):
        *rest, timer = json.loads(probe_flags(tmp_path, speculating=speculating)[1])
        assert len(rest) == speculating
        module, _, function = timer["hook_factory"].partition(":")
        assert (module, callable(getattr(phases, function))) == (phases.__name__, True)
    assert phases.FOLDER == PHASES


HEAD = {"pid": 7, "rank": 0, "role": "scheduler", "mode": "DECODE", "clock": "cuda"}
RECORD = {**HEAD, "phases": ["decode"], "steps": [[1, 4.0, 3.0], [1, None, 3.5], [2, 5.0, None]]}


def write(folder: Path, *lines: object, pid: int = 7) -> None:
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / f"run.{pid}.jsonl").write_text(text)


WHOLE = [Step(1, 4.0, {"decode": 3.0}), Step(1, None, {"decode": 3.5})]


def test_the_reader_takes_whole_steps_of_the_first_rank(tmp_path: Path) -> None:
    write(tmp_path, {**RECORD, "rank": 1, "pid": 3}, pid=3)
    write(tmp_path, RECORD)
    assert read_steps(tmp_path, "run", 2) == ("cuda", WHOLE)


@pytest.mark.parametrize(
    ("ranks", "ranks_a_request"),
    [
        ((0, 0), 1),  # two replicas, each a world of its own
        ((0, 1, 0, 1), 2),  # two replicas of two ranks
        ((0, 1), 1),  # DP attention: one world, whose ranks serve requests of their own
        ((0, 1, 2, 3), 2),
    ],
)
def test_the_steps_of_every_data_parallel_rank_are_read(
    tmp_path: Path, ranks: tuple[int, ...], ranks_a_request: int
) -> None:
    for pid, rank in enumerate(ranks, start=10):
        batch = rank // ranks_a_request + 10 * (pid - rank)
        steps = [[batch, 4.0, 3.0], [batch, None, 9.0 * rank]]
        write(tmp_path, {**RECORD, "rank": rank, "pid": pid, "steps": steps}, pid=pid)
    _, steps = read_steps(tmp_path, "run", ranks_a_request)
    assert len(steps) == 2 * len(ranks) // ranks_a_request
    assert len({step.batch_size for step in steps}) == len(ranks) // ranks_a_request


def test_a_last_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, RECORD)
    with (tmp_path / "run.7.jsonl").open("a") as file:
        file.write(json.dumps(RECORD)[:40])
    assert len(read_steps(tmp_path, "run")[1]) == 2


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "timed no decode step: it carries no timer"),
        ([{**HEAD, "error": "LookupError: no verify"}], "LookupError: no verify"),
        ([{**RECORD, "rank": 1}], "holds no times of steps: KeyError"),
        ([HEAD], "holds no times of steps: KeyError"),
        ([{**RECORD, "steps": [[1, 2.0]]}], "holds no times of steps: ValueError"),
        (["text"], "is no record of an observer"),
    ],
)
def test_nothing_to_read_says_why(tmp_path: Path, lines: list[object], words: str) -> None:
    if lines:
        write(tmp_path, *lines)
    with pytest.raises(ProbeError, match=words):
        read_steps(tmp_path, "run", 2)
