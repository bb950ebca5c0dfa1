"""Faults and healthy controls of the built-in pair: what is planted, which check must name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests import planted
from tests.planted import Plant

PAIR = "test_pair_and_flags_fit"
ALGORITHM = "test_eagle3_draft_is_served_as_eagle3"
FLAGS = "test_server_runs_what_was_asked_for"
WIDTH = "test_fc_is_fed_the_concatenated_layers"
LAYERS = "test_draft_is_fed_the_layers_it_was_trained_on"
ACCEPTANCE = "test_acceptance_length"
CACHED = "test_a_cached_prompt_is_accepted_as_a_cold_one"
BASELINE = "test_acceptance_is_that_of_the_baseline"
SPEED = "test_throughput_is_that_of_the_baseline"


@dataclass(frozen=True)
class Check:
    """The first red test and words of its message. `START` stands for a boot that fails."""

    test: str
    words: str


@dataclass(frozen=True)
class Fault:
    """One planted fault, or a healthy control where nothing is expected.

    `before` is what the suite must say before the boot, `live` what it must say of the running
    server when preflight is left out; None: nothing can be seen there.
    """

    what: str
    before: Check | None = None
    live: Check | None = None
    draft: str = "tiny-eagle3"
    plant: Plant = planted.unchanged
    plant_target: Plant | None = None
    algorithm: str = "EAGLE3"
    numbers: tuple[int, int, int] = (3, 1, 4)
    floor: float = 3.2
    env: Mapping[str, str] = field(default_factory=dict)
    timed: bool = False
    """Whether accepted sessions are needed, and the speed is measured."""
    warned: str = ""
    """Words of a warning before the boot, which stops nothing."""
    diagnosis: str = ""
    """Words of what follows from the draft alone, where it is replayed whatever is red."""


START = "boot"


def moved(ids: str, by: Plant, what: str, trained: str = "[1, 3, 5]", **more: str) -> Fault:
    return Fault(
        what,
        Check(PAIR, f"trained on layers {trained} and would be fed {ids}"),
        Check(LAYERS, f"trained on {trained} and is fed {ids}"),
        plant=by,
        **more,  # type: ignore[arg-type]
    )


def checkpoint(what: str, by: Plant, words: str, before: Check | None = None) -> Fault:
    return Fault(what, before, Check(ACCEPTANCE, words), plant=by)


def altered(what: str, live: Check, **env: str) -> Fault:
    names = {f"DRAFTGATE_{name.upper()}": value for name, value in env.items()}
    return Fault(what, None, live, env=names, timed="pace_ms" in env)


SAME_ALONE = "draft quality: the draft does alone what it does in the server"
PACE_MS = "120"

FAULTS: Mapping[str, Fault] = {
    "eagle": Fault(
        "`EAGLE` for an EAGLE-3 draft",
        Check(PAIR, "told algorithm EAGLE"),
        Check(ALGORITHM, "the server runs algorithm EAGLE"),
        algorithm="EAGLE",
    ),
    "seed": moved(
        "[1, 3, 5]",
        planted.layer_ids_plain,
        "trained on [embedding, 1, 3], served with ids [1, 3, 5]",
        "[embedding, 1, 3]",
        draft="tiny-eagle3-embed",
    ),
    "ids-later": moved("[2, 4, 6]", planted.layer_ids_later, "layer ids one too high"),
    "ids-earlier": moved("[0, 2, 4]", planted.layer_ids_earlier, "layer ids one too low"),
    "ids-late": moved("[4, 5, 6]", planted.layer_ids_of_another(4, 5, 6), "the last layers' ids"),
    "no-ids": moved("[1, 3, 4]", planted.no_eagle_config, "no `eagle_config`: default layers"),
    "ids-collide": Fault(
        "layer ids [5, 3, 5]: one of them twice",
        Check(PAIR, "captures 2 layers [3, 5] of the 3"),
        Check(START, "mat1 and mat2 shapes cannot be multiplied"),
        plant=planted.layer_ids_first_is_last,
    ),
    "lm-head-missing": checkpoint(
        "no `lm_head.weight`",
        planted.lm_head_removed,
        "the draft has no lm_head.weight",
        Check(PAIR, "no lm_head.weight"),
    ),
    "lm-head-random": checkpoint("an untrained `lm_head`", planted.lm_head_random, SAME_ALONE),
    "d2t-shifted": checkpoint(
        "`d2t` shifted by one", planted.d2t_shifted, SAME_ALONE, Check(PAIR, "d2t")
    ),
    "d2t-zeros": checkpoint(
        "`d2t` all zeros", planted.d2t_zeros, SAME_ALONE, Check(PAIR, "disagrees with t2d")
    ),
    "d2t-absolute": Fault(
        "`d2t` holds ids, not differences",
        Check(PAIR, "outside the vocabulary"),
        Check(START, "index out of range"),
        plant=planted.d2t_absolute,
    ),
    "other-vocabulary": Fault(
        "a draft of another vocabulary",
        Check(PAIR, "a target vocabulary of 256, this target has 128"),
        Check(START, "index out of range"),
        plant=planted.other_vocabulary,
    ),
    "other-target": Fault(
        "a draft of another target of the same shape",
        None,
        Check(ACCEPTANCE, "draft quality: the draft was trained for another target"),
        plant_target=planted.another_target,
        warned="trained for a target of other weights than this one",
    ),
    "fc-permuted": checkpoint("columns of `fc` permuted", planted.fc_columns_permuted, SAME_ALONE),
    "fc-swapped": checkpoint("chunks of `fc` swapped", planted.fc_chunks_swapped, SAME_ALONE),
    "fc-rotated": checkpoint("chunks of `fc` rotated", planted.fc_chunks_rotated, SAME_ALONE),
    "simulated": Fault(
        "`SGLANG_SIMULATE_ACC_LEN` left on",
        Check(PAIR, "SGLANG_SIMULATE_ACC_LEN=3.5"),
        Check(ACCEPTANCE, "SGLANG_SIMULATE_ACC_LEN makes the server simulate"),
        env={"SGLANG_SIMULATE_ACC_LEN": "3.5"},
    ),
    "capture-swapped": altered(
        "the engine hands over the states in another order",
        Check(LAYERS, "is fed [3, 1, 5]"),
        fault="capture_swapped",
    ),
    "fed-swapped": altered(
        "the engine swaps the states behind every observer",
        Check(ACCEPTANCE, "wiring: on the very states this server returned the draft alone"),
        fault="fed_swapped",
    ),
    "fewer-steps": altered(
        "the engine takes fewer steps than asked",
        Check(FLAGS, "speculative_num_steps: asked for 3, the server runs 1"),
        fault="fewer_steps",
    ),
    "renamed-counters": altered(
        "the acceptance counters are renamed",
        Check(WIDTH, "this SGLang version renamed the counter"),
        fault="renamed_counters",
    ),
    "stale-server": altered(
        "a server of another launch answers on the port",
        Check(START, "another server answers on port"),
        fault="stale_server",
    ),
    "cache-hit": altered(
        "a radix-cache hit loses the draft's keys",
        Check(CACHED, "when they are found in the radix cache"),
        fault="cache_hit",
    ),
    "slower": altered(
        "10 % more time per verify step, the same acceptance",
        Check(SPEED, "slower"),
        pace_ms="132",
    ),
    "less-accepted": altered(
        "less accepted, the same time per verify step",
        Check(BASELINE, "on the very states this server returned the draft alone accepts"),
        fault="forgetful",
        pace_ms=PACE_MS,
    ),
}

CONTROLS: Mapping[str, Fault] = {
    "plain": Fault("the built-in pair as it is"),
    "reordered": Fault("layer ids in another order", plant=planted.layer_ids_reordered),
    "embedding": Fault("the draft of [embedding, 1, 3], rightly wired", draft="tiny-eagle3-embed"),
    "longer": Fault("five steps", numbers=(5, 1, 6), floor=4.5),
    "tree": Fault("a tree: topk 4, 8 draft tokens", numbers=(3, 4, 8)),
    "paced": Fault("the same speed as accepted", env={"DRAFTGATE_PACE_MS": PACE_MS}, timed=True),
}

PLUGIN = Path(__file__).parent / "plugin"
