from __future__ import annotations

from typing import Any

from draftgate.session.progress import BootProgress

ID = "tiny/none/cpu"


class Kept(dict[str, Any]):
    """The two methods of pytest's cache."""

    def set(self, key: str, value: object) -> None:
        self[key] = value


def test_phases_are_told_with_the_time_they_took_last_time() -> None:
    store, first, second = Kept(), [], []
    boot = BootProgress(ID, first.append, store)
    boot("imports", 0.0)
    boot("imports", 12.0)
    boot("weights", 20.5)
    boot.ready(24.0, {"imports": 20.5, "weights": 3.5})
    assert first == [
        "tiny/none/cpu    0.0 s  imports",
        "tiny/none/cpu   20.5 s  weights",
        "tiny/none/cpu   24.0 s  ready",
    ]
    boot = BootProgress(ID, second.append, store)
    boot("imports", 0.0)
    boot("imports", 31.0)
    boot("imports", 40.0)
    boot("weights", 41.0)
    boot.ready(45.0, {"imports": 41.0, "weights": 4.0})
    assert second == [
        "tiny/none/cpu    0.0 s  imports (last time 20.5 s)",
        "tiny/none/cpu   31.0 s  imports for 31 s (last time 20.5 s)",
        "tiny/none/cpu   41.0 s  weights (last time 3.5 s)",
        "tiny/none/cpu   45.0 s  ready (last time 24.0 s)",
    ]


def test_nothing_is_kept_without_a_store_and_junk_in_it_does_no_harm() -> None:
    told: list[str] = []
    BootProgress(ID, told.append, None).ready(1.0, {"imports": 1.0})
    BootProgress(ID, told.append, Kept({f"draftgate/phases/{ID}": "junk"}))("imports", 0.0)
    assert told == ["tiny/none/cpu    1.0 s  ready", "tiny/none/cpu    0.0 s  imports"]


def test_ctrl_c_in_a_boot_says_what_it_came_into() -> None:
    told: list[str] = []
    boot = BootProgress(ID, told.append, None)
    boot("weights", 3.0)
    boot.interrupted()
    assert told[-1] == "tiny/none/cpu  interrupted in its boot: weights"
