"""What one server leaves for another, within a process and between workers."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from draftgate.measure.samples import AcceptanceSample, PromptSample
from draftgate.session.reference import ReferenceResults

REFERENCE, OTHER = "tiny/none/cpu", "tiny/eagle3-s3k1d4/cpu"
RUNNING = frozenset({REFERENCE, OTHER})
TEXTS = {"p-0": (5, 7), "p-1": (9,)}
SAMPLE = AcceptanceSample(
    prompts=(PromptSample("p-0", 2, 1, 0, "ab", "code"),),
    max_new_tokens=2,
    concurrency=8,
    prompt_set_sha256="cd",
    histogram=(0, 1),
)


@pytest.fixture
def workers(tmp_path: Path) -> tuple[ReferenceResults, ReferenceResults]:
    one, two = (ReferenceResults(tmp_path, RUNNING, patience_s=60.0) for _ in range(2))
    return one, two


def test_one_process_keeps_everything_in_memory() -> None:
    results = ReferenceResults(running=RUNNING)
    results.put(REFERENCE, "texts", TEXTS)
    assert results.get(REFERENCE, "texts") == TEXTS
    assert results.get(REFERENCE, "states") is None
    assert results.get(None, "texts") is None
    results.wait_for_device(REFERENCE)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("texts", TEXTS), ("states", {"p-0": [[0.5, -0.1], [1e-7, 3.0]]}), ("acceptance", SAMPLE)],
)
def test_every_kind_arrives_at_another_worker_as_it_was(
    workers: tuple[ReferenceResults, ReferenceResults], kind: str, value: object
) -> None:
    one, two = workers
    one.put(REFERENCE, kind, value)
    assert two.get(REFERENCE, kind) == value


def test_a_worker_waits_for_what_is_still_measured(
    workers: tuple[ReferenceResults, ReferenceResults],
) -> None:
    one, two = workers
    threading.Timer(0.5, one.put, (REFERENCE, "texts", TEXTS)).start()
    assert two.get(REFERENCE, "texts") == TEXTS


def test_a_worker_waits_for_a_device_of_its_reference(
    workers: tuple[ReferenceResults, ReferenceResults],
) -> None:
    one, two = workers
    began = time.monotonic()
    threading.Timer(0.5, one.has_device, (REFERENCE,)).start()
    two.wait_for_device(REFERENCE)
    assert time.monotonic() - began >= 0.5
    two.wait_for_device("tiny/none/graph")  # does not run: not waited for


def test_nobody_waits_for_what_never_comes(
    workers: tuple[ReferenceResults, ReferenceResults],
) -> None:
    one, two = workers
    assert two.get("tiny/none/graph", "texts") is None
    one.has_device(REFERENCE)
    one.is_over(REFERENCE)
    assert two.get(REFERENCE, "texts") is None
    one.stop()
    assert two.get(OTHER, "texts") is None


def test_waiting_is_bounded(tmp_path: Path) -> None:
    assert ReferenceResults(tmp_path, RUNNING, patience_s=0.3).get(REFERENCE, "texts") is None
