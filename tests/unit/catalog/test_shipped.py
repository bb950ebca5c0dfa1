"""The profiles and prompts that come with draftgate."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import draftgate
import pytest
from draftgate.catalog.select import Catalog, load_profiles
from draftgate.catalog.spec import ServerSpec
from draftgate.engine.command import check_arguments
from draftgate.models.checkpoint import read_checkpoint
from draftgate.plugin.choice import ordered
from draftgate.preflight.asked import asked_by_spec
from draftgate.preflight.case import Case
from draftgate.preflight.rules import judge
from packaging.version import Version

BUILTIN = Path(draftgate.__file__).parent / "models" / "builtin"
KIMI = {
    "KIMI_K25_TARGET": "/m/t",
    "KIMI_K25_DRAFT": "/m/d",
    "KIMI_K25_AQMEDAI_DRAFT": "AQ-MedAI/Kimi-K25-eagle3",
}


@pytest.fixture(scope="module")
def profiles() -> Catalog:
    return load_profiles(environ=KIMI)


def test_ids_and_floors(profiles: Catalog) -> None:
    assert list(profiles) == [
        "kimi-k25",
        "kimi-k25-shape",
        "kimi-k25-shape-2gpu",
        "llama-8b-shape",
        "llama31-8b",
        "smollm2",
        "tiny",
        "tiny-2gpu",
    ]
    cells = {
        "tiny": {
            "none": None,
            "eagle3-s3k1d4": 3.4,
            "eagle3-s5k1d6": 4.8,
            "eagle3-s3k4d8": 3.4,
            "embed-s3k1d4": 3.4,
        },
        "llama31-8b": {
            "none": None,
            "eagle3-s3k1d4": 2.2,
            "eagle3-s5k1d6": 2.6,
            "eagle3-s7k4d8": 2.2,
        },
        "kimi-k25-shape": {"none": None, "eagle3-s3k1d4": None},
        "kimi-k25-shape-2gpu": {"none-tp2": None, "eagle3-s3k1d4-tp2": None},
        "kimi-k25": {
            "none-tp8": None,
            "own-s5k4d16-tp8": 1.9,
            "own-s5k1d6-tp8": 1.9,
            "own-s4k1d5-tp8": 1.9,
            "aqmedai-s3k1d4-tp8": 1.9,
        },
    }
    for name, floors in cells.items():
        modes = ("cpu", "graph", "eager") if name == "tiny" else ("graph", "eager")
        assert {spec.id: spec.acceptance_floor for spec in profiles[name].servers} == {
            f"{name}/{cell}/{mode}": floor for cell, floor in floors.items() for mode in modes
        }


def test_every_draft_has_a_reference(profiles: Catalog) -> None:
    for profile in profiles.values():
        known = {spec.id for spec in profile.servers}
        for spec in profile.servers:
            assert (spec.reference_id is None) == (spec.speculation is None)
            assert spec.reference_id is None or spec.reference_id in known


def test_gpus_and_meaning(profiles: Catalog) -> None:
    assert {spec.gpus for spec in profiles["kimi-k25"].servers} == {8}
    assert {spec.gpus for spec in profiles["tiny"].servers} == {0, 1}
    assert {spec.gpus for spec in profiles["kimi-k25-shape-2gpu"].servers} == {2}
    meaning = {name: profile.acceptance_means_something for name, profile in profiles.items()}
    assert meaning == {
        "kimi-k25": True,
        "kimi-k25-shape": False,
        "kimi-k25-shape-2gpu": False,
        "llama-8b-shape": False,
        "llama31-8b": True,
        "smollm2": True,
        "tiny": True,
        "tiny-2gpu": True,
    }


def test_tiny_differs_by_device(profiles: Catalog) -> None:
    gpu = next(spec for spec in profiles["tiny"].servers if spec.cuda_graphs)
    cpu = next(spec for spec in profiles["tiny"].servers if spec.device == "cpu")
    assert (gpu.attention_backend, cpu.attention_backend) == ("triton", None)
    assert (gpu.mem_fraction_static, cpu.mem_fraction_static) == (0.3, None)
    assert gpu.args == ("--sampling-backend", "pytorch", "--grammar-backend", "none")
    assert cpu.args == ()
    assert (gpu.throughput.gated, cpu.throughput.gated) == (False, True)
    assert (gpu.throughput.prompts, cpu.throughput.prompts) == (8, 4)


def test_smollm2_on_each_device(profiles: Catalog) -> None:
    by_device: dict[str, dict[str, ServerSpec]] = {"cpu": {}, "gpu": {}}
    for spec in profiles["smollm2"].servers:
        by_device[spec.device][spec.id.removeprefix("smollm2/")] = spec
    assert list(by_device["cpu"]) == ["none/cpu", "eagle3-s3k1d4/cpu"]
    gpu = by_device["gpu"]
    assert {spec.throughput.concurrency for spec in gpu.values()} == {1, 8, 32}
    assert {name for name in gpu if name.endswith("/eager")} == {
        "none/eager",
        "eagle3-s3k1d4/eager",
    }
    assert {name.partition("/")[0] for name in gpu} >= {"eagle3-s5k1d6", "eagle3-s3k4d8"}
    categories = {prompt["category"] for prompt in prompts_of("chat")}
    for spec in profiles["smollm2"].servers:
        assert spec.prompts.count == (90 if spec.device == "gpu" else 10)
        assert not spec.exact_text
        assert spec.throughput.gated == (spec.device == "cpu")
        assert {name for name, _ in spec.category_floors} == (
            categories if spec.speculation else set()
        )
        assert (spec.acceptance_floor is not None) == (spec.speculation is not None)


def prompts_of(name: str) -> list[dict[str, Any]]:
    lines = (BUILTIN / "prompts" / f"{name}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_two_gpus_stand_beside_one(profiles: Catalog) -> None:
    assert [
        (s.cell, s.gpus, s.ranks_a_request, s.acceptance_floor, s.one_rank_id)
        for s in ordered(profiles["tiny-2gpu"].servers)
    ] == [
        ("none/graph", 1, 1, None, None),
        ("eagle3-s3k1d4/graph", 1, 1, 3.4, None),
        ("none-tp2/graph", 2, 2, None, None),
        ("none-dp2/graph", 2, 1, None, None),
        ("none-tp2/eager", 2, 2, None, None),
        ("eagle3-s3k1d4-tp2/graph", 2, 2, 3.4, "tiny-2gpu/eagle3-s3k1d4/graph"),
        ("eagle3-s3k1d4-dp2/graph", 2, 1, 3.4, "tiny-2gpu/eagle3-s3k1d4/graph"),
        ("eagle3-s3k1d4-tp2/eager", 2, 2, 3.4, None),
    ]


@pytest.mark.parametrize("name", ["tiny", "kimi-k25-shape"])
def test_two_gpus_are_served_as_one_is(profiles: Catalog, name: str) -> None:
    """What both profiles spell out stays the same."""

    def of_both(spec: ServerSpec) -> tuple[object, ...]:
        return (
            *(spec.target, spec.speculation, spec.prompts, spec.throughput, spec.exact_text),
            *(spec.context_length, spec.attention_backend, spec.max_running_requests),
            *(spec.mem_fraction_static, spec.graph_max_batch, spec.skip_tokenizer, spec.args[:4]),
            spec.acceptance_floor,
        )

    one = {of_both(spec) for spec in profiles[name].servers if spec.device == "gpu"}
    assert {of_both(spec) for spec in profiles[f"{name}-2gpu"].servers} <= one


@pytest.mark.parametrize("version", ["0.5.16", "0.5.23"])
def test_both_releases_know_the_flag_against_the_fused_all_reduce(
    profiles: Catalog, version: str
) -> None:
    for spec in profiles["kimi-k25-shape-2gpu"].servers:
        assert spec.args[4:] == ("--enforce-disable-flashinfer-allreduce-fusion",)
        check_arguments(spec, Version(version))
        if spec.speculation is not None:
            target, draft = (
                read_checkpoint(BUILTIN / f"kimi-k25-shape{end}") for end in ("", "-eagle3")
            )
            asked = asked_by_spec(spec, Version(version), acceptance_matters=False)
            found = judge(Case(asked, Version(version), target, draft))
            assert [f for f in found if f.severity != "info"] == []


def test_kimi_says_which_variables_it_needs() -> None:
    bare = load_profiles(environ={})
    assert bare["kimi-k25"].unset_variables == tuple(KIMI)
    assert all(bare[name].unset_variables == () for name in bare if name != "kimi-k25")


def test_the_engine_alone_is_timed_with_acceptance_pinned(profiles: Catalog) -> None:
    servers = {
        spec.id.removeprefix("llama-8b-shape/"): spec for spec in profiles["llama-8b-shape"].servers
    }
    assert list(servers) == [
        "none/graph",
        "eagle3-s3k1d4/graph",
        "eagle3-s5k1d6/graph",
        "none-bs8/graph",
        "eagle3-s3k1d4-bs8/graph",
        "none/eager",
        "eagle3-s3k1d4/eager",
    ]
    for name, spec in servers.items():
        assert spec.throughput.concurrency == (8 if "bs8" in name else 1)
        assert spec.throughput.gated == spec.cuda_graphs
        pinned = (("SGLANG_SIMULATE_ACC_LEN", "2.5"),) if spec.speculation else ()
        assert spec.env == pinned


def test_the_shape_has_the_widths_of_kimi() -> None:
    target = json.loads((BUILTIN / "kimi-k25-shape" / "config.json").read_text())
    draft = json.loads((BUILTIN / "kimi-k25-shape-eagle3" / "config.json").read_text())
    ids = draft["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    assert (target["hidden_size"], target["num_hidden_layers"]) == (7168, 61)
    assert target["vocab_size"] == draft["vocab_size"] == 163840
    assert ids == [2, 30, 58]
    assert draft["hidden_size"] * len(ids) == 21504
    assert draft["max_position_embeddings"] >= target["max_position_embeddings"]
    # Weights in bfloat16: embeddings and head, attention, one dense layer, experts with router.
    hidden, heads = target["hidden_size"], target["num_attention_heads"]
    nope, rope = target["qk_nope_head_dim"], target["qk_rope_head_dim"]
    latent = target["kv_lora_rank"]
    attention = hidden * target["q_lora_rank"] + target["q_lora_rank"] * heads * (nope + rope)
    attention += hidden * (latent + rope) + heads * latent * (nope + target["v_head_dim"])
    attention += heads * target["v_head_dim"] * hidden
    experts = target["n_routed_experts"] + target["n_shared_experts"]
    moe = 3 * hidden * target["moe_intermediate_size"] * experts
    total = 2 * target["vocab_size"] * hidden + 61 * attention + 60 * moe
    total += 3 * hidden * target["intermediate_size"]
    assert 10.5e9 < 2 * total < 11.5e9


def test_the_english_prompts_are_balanced() -> None:
    lines = (BUILTIN / "prompts" / "english.jsonl").read_text().splitlines()
    prompts = [json.loads(line) for line in lines]
    assert all(set(prompt) == {"id", "category", "messages"} for prompt in prompts)
    assert len({prompt["id"] for prompt in prompts}) == 40
    assert Counter(prompt["category"] for prompt in prompts) == dict.fromkeys(
        (
            "writing",
            "roleplay",
            "reasoning",
            "math",
            "coding",
            "extraction",
            "stem",
            "humanities",
        ),
        5,
    )
    # Any eight that begin the file, as the timed rounds take them, hold one of each category.
    assert len({prompt["category"] for prompt in prompts[:8]}) == 8
    for prompt in prompts:
        (message,) = prompt["messages"]
        assert message["role"] == "user"
        assert len(message["content"]) > 100
    assert len({prompt["messages"][0]["content"] for prompt in prompts}) == 40


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, draftgate.catalog.select; "
        "print([m for m in ('torch', 'sglang', 'transformers', 'numpy') if m in sys.modules])"
    )
    folder = Path(draftgate.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
