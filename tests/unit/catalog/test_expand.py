"""What a profile becomes: ids, devices, layers, references, environment variables."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from draftgate.catalog.kinds import SLUG
from draftgate.catalog.load import load_profile
from draftgate.catalog.rules import tree_capacity
from draftgate.catalog.spec import Draft, Prompts, ServerSpec, Speculation, Target, Throughput
from hypothesis import given
from hypothesis import strategies as st

from .conftest import CHAIN, HEAD, Load


def test_ten_lines_give_two_fully_resolved_servers(load: Load, tmp_path: Path) -> None:
    profile = load(HEAD + "[[servers]]" + CHAIN)
    source = tmp_path / "mine.toml"
    target = Target("builtin:tiny", None, False, "auto")
    none = ServerSpec(
        id="mine/none/graph",
        profile="mine",
        source=source,
        device="gpu",
        target=target,
        speculation=None,
        cuda_graphs=True,
        graph_max_batch=None,
        tp=1,
        dp=1,
        nnodes=1,
        context_length=None,
        attention_backend=None,
        max_running_requests=None,
        mem_fraction_static=None,
        skip_tokenizer=False,
        args=(),
        env=(),
        acceptance_floor=None,
        acceptance_ceiling=None,
        boot_timeout_s=900.0,
        host="127.0.0.1",
        prompts=Prompts("builtin:english", 32, 128),
        throughput=Throughput(8, 128, 1, 5, True),
        reference_id=None,
    )
    chain = dataclasses.replace(
        none,
        id="mine/eagle3-s3k1d4/graph",
        speculation=Speculation(Draft("eagle3", "builtin:tiny-eagle3"), "EAGLE3", 3, 1, 4),
        reference_id="mine/none/graph",
    )
    assert profile.name == "mine"
    assert profile.source == source
    assert profile.description == ""
    assert profile.acceptance_means_something is True
    assert profile.unset_variables == ()
    assert profile.servers == (none, chain)


def test_one_spec_for_each_device_and_graph_setting(load: Load) -> None:
    profile = load(
        HEAD
        + '[defaults]\ndevices = ["cpu", "gpu"]\ncuda_graphs = [true, false]\ngraph_max_batch = 8\n'
        + "[[servers]]"
        + CHAIN
    )
    assert [
        (spec.id, spec.device, spec.cuda_graphs, spec.graph_max_batch, spec.reference_id)
        for spec in profile.servers
    ] == [
        ("mine/none/cpu", "cpu", False, None, None),
        ("mine/none/graph", "gpu", True, 8, None),
        ("mine/none/eager", "gpu", False, None, None),
        ("mine/eagle3-s3k1d4/cpu", "cpu", False, None, "mine/none/cpu"),
        ("mine/eagle3-s3k1d4/graph", "gpu", True, 8, "mine/none/graph"),
        ("mine/eagle3-s3k1d4/eager", "gpu", False, None, "mine/none/eager"),
    ]


def test_parallelism_and_label_end_the_cell(load: Load) -> None:
    spec = load(HEAD + CHAIN + 'tp = 2\ndp = 4\nnnodes = 2\nlabel = "b8"').servers[0]
    assert spec.id == "mine/eagle3-s3k1d4-tp2-dp4-b8/graph"
    assert spec.cell == "eagle3-s3k1d4-tp2-dp4-b8/graph"
    assert spec.gpus == 4


def test_dp_attention_divides_the_gpus_of_tp(load: Load) -> None:
    spec = load(HEAD + CHAIN + 'tp = 4\ndp = 2\nargs = ["--enable-dp-attention"]').servers[0]
    assert (spec.replicas, spec.gpus, spec.ranks_a_request) == (1, 4, 2)
    spec = load(HEAD + CHAIN + "tp = 4\ndp = 2").servers[0]
    assert (spec.replicas, spec.gpus, spec.ranks_a_request) == (2, 8, 4)


def test_on_several_gpus_a_server_has_its_like_on_one(load: Load) -> None:
    """Alike in all but parallelism and the flags that come with it; with its label, or without."""
    profile = load(
        HEAD
        + "[defaults]\ncuda_graphs = [true, false]\n"
        + "[[servers]]"
        + CHAIN
        + CHAIN.replace("3", "5").replace("4", "6").replace("eagle5", "eagle3")
        + CHAIN
        + 'label = "a"\n'
        + CHAIN
        + 'tp = 2\nlabel = "a"\nargs = ["--moe-a2a-backend", "none"]\n'
        + CHAIN
        + 'dp = 2\nlabel = "b"\ncuda_graphs = true\n'
        + CHAIN
        + "tp = 4\nprompts = { count = 5 }\ncuda_graphs = false\n"
        + "[[servers]]\ntp = 2\n"
    )
    found = {spec.cell: spec.one_rank_id for spec in profile.servers if spec.tp * spec.dp > 1}
    assert found == {
        "eagle3-s3k1d4-tp2-a/graph": "mine/eagle3-s3k1d4-a/graph",
        "eagle3-s3k1d4-tp2-a/eager": "mine/eagle3-s3k1d4-a/eager",
        "eagle3-s3k1d4-dp2-b/graph": "mine/eagle3-s3k1d4/graph",
        "eagle3-s3k1d4-tp4/eager": None,
        "none-tp2/graph": None,
        "none-tp2/eager": None,
    }
    assert all(spec.one_rank_id is None for spec in profile.servers if spec.tp * spec.dp == 1)


def test_later_layers_win_and_arguments_add_up(load: Load) -> None:
    profile = load(
        HEAD
        + """
[defaults]
devices = ["gpu", "cpu"]
context_length = 1
args = ["--x-a"]
env = { X = "defaults", D = "1" }
algorithm = "EAGLE"
[defaults.gpu]
context_length = 2
attention_backend = "triton"
args = ["--x-b", "1"]
env = { X = "defaults.gpu" }
[[servers]]
draft = "eagle3"
num_steps = 3
topk = 1
num_draft_tokens = 4
attention_backend = "fa3"
algorithm = "EAGLE3"
args = ["--x-c"]
env = { X = "server", S = "2" }
gpu = { max_running_requests = 5, args = ["--x-d"], env = { X = "server.gpu" } }
cpu = { context_length = 4 }
"""
    )
    gpu, cpu = profile.servers
    assert gpu.context_length == 2
    assert gpu.attention_backend == "fa3"
    assert gpu.max_running_requests == 5
    assert gpu.args == ("--x-a", "--x-b", "1", "--x-c", "--x-d")
    assert gpu.env == (("D", "1"), ("S", "2"), ("X", "server.gpu"))
    assert gpu.speculation is not None
    assert gpu.speculation.algorithm == "EAGLE3"
    assert cpu.context_length == 4
    assert cpu.attention_backend == "fa3"
    assert cpu.max_running_requests is None
    assert cpu.args == ("--x-a", "--x-c")
    assert cpu.env == (("D", "1"), ("S", "2"), ("X", "server"))


def test_prompts_and_throughput_are_overridden_key_by_key(load: Load) -> None:
    profile = load(
        HEAD
        + """
[prompts]
path = "p.jsonl"
count = 4
[throughput]
rounds = 3
[defaults]
devices = ["gpu", "cpu"]
[defaults.gpu.throughput]
gated = false
[[servers]]
prompts = { max_new_tokens = 64 }
throughput = { concurrency = 2 }
cpu = { prompts = { count = 2 }, throughput = { concurrency = 3 } }
"""
    )
    gpu, cpu = profile.servers
    assert gpu.prompts == Prompts("p.jsonl", 4, 64)
    assert cpu.prompts == Prompts("p.jsonl", 2, 64)
    assert gpu.throughput == Throughput(8, 128, 2, 3, False)
    assert cpu.throughput == Throughput(8, 128, 3, 3, True)


def test_trained_on_takes_ids_and_the_embedding(load: Load) -> None:
    text = '[target]\npath = "t"\n[drafts.d]\npath = "d"\ntrained_on = ["embedding", 0, 30]\n'
    text += CHAIN.replace("eagle3", "d")
    speculation = load(text).servers[0].speculation
    assert speculation is not None
    assert speculation.draft.trained_on == (-1, 0, 30)
    spelled = load(text.replace('"embedding"', "-1")).servers[0].speculation
    assert spelled == speculation


def test_limits_of_defaults_are_left_out_of_servers_without_a_draft(load: Load) -> None:
    none, chain = load(
        HEAD
        + "[defaults]\nacceptance_floor = 1.5\nacceptance_ceiling = 3.9\n"
        + "category_floors = { math = 2.0, coding = 1.5 }\n[[servers]]"
        + CHAIN
    ).servers
    assert (none.acceptance_floor, none.acceptance_ceiling) == (None, None)
    assert (chain.acceptance_floor, chain.acceptance_ceiling) == (1.5, 3.9)
    assert (none.category_floors, chain.category_floors) == (
        (),
        (("coding", 1.5), ("math", 2.0)),
    )


def test_the_reference_has_the_same_label_or_else_none(load: Load) -> None:
    profile = load(
        HEAD
        + '[[servers]]\nlabel = "long"\n[[servers]]\n[[servers]]\ntp = 2\n'
        + CHAIN
        + CHAIN
        + 'label = "long"\n'
        + CHAIN
        + 'label = "other"\n'
        + CHAIN
        + "tp = 2\n"
        + CHAIN
        + "tp = 4\n"
    )
    assert {spec.id: spec.reference_id for spec in profile.servers if spec.speculation} == {
        "mine/eagle3-s3k1d4/graph": "mine/none/graph",
        "mine/eagle3-s3k1d4-long/graph": "mine/none-long/graph",
        "mine/eagle3-s3k1d4-other/graph": "mine/none/graph",
        "mine/eagle3-s3k1d4-tp2/graph": "mine/none-tp2/graph",
        "mine/eagle3-s3k1d4-tp4/graph": None,
    }


def test_variables_in_paths_are_filled_in_or_listed(load: Load) -> None:
    text = (
        '[target]\npath = "${ROOT}/${NAME}"\n[drafts.d]\npath = "${DRAFT}"\n'
        '[prompts]\npath = "${ROOT}/p.jsonl"\n' + CHAIN.replace("eagle3", "d")
    )
    profile = load(text, {"ROOT": "/models", "NAME": ""})
    spec = profile.servers[0]
    assert spec.target.path == "/models/${NAME}"
    assert spec.prompts.path == "/models/p.jsonl"
    assert profile.unset_variables == ("NAME", "DRAFT")
    full = load(text, {"ROOT": "/models", "NAME": "t", "DRAFT": "a/${b}"})
    assert full.servers[0].target.path == "/models/t"


def test_relative_paths_stay_as_written(load: Load) -> None:
    assert load(HEAD.replace("builtin:tiny-eagle3", "../d") + CHAIN).servers[
        0
    ].speculation == Speculation(Draft("eagle3", "../d"), "EAGLE3", 3, 1, 4)


def test_a_host_that_others_reach_needs_a_key(load: Load) -> None:
    text = HEAD + '[[servers]]\nhost = "0.0.0.0"\n'
    assert load(text, {"DRAFTGATE_API_KEY": "secret"}).servers[0].host == "0.0.0.0"
    for host in ("127.0.0.1", "127.1.2.3", "localhost", "::1", "[::1]"):
        assert load(text.replace("0.0.0.0", host)).servers[0].host == host


@given(steps=st.integers(1, 8), topk=st.integers(1, 8))
def test_capacity_counts_what_a_tree_proposes(steps: int, topk: int) -> None:
    proposed = topk
    for _ in range(steps - 1):
        proposed += sum(topk for _kept in range(topk))
    assert tree_capacity(steps, topk) == 1 + proposed


@given(
    steps=st.integers(1, 16),
    topk=st.integers(1, 8),
    tp=st.sampled_from([1, 2, 8]),
    label=st.one_of(st.none(), st.from_regex(SLUG, fullmatch=True)),
    graphs=st.booleans(),
)
def test_every_id_is_a_slug_that_spells_its_server(
    tmp_path_factory: pytest.TempPathFactory,
    steps: int,
    topk: int,
    tp: int,
    label: str | None,
    graphs: bool,
) -> None:
    tokens = steps + 1
    path = tmp_path_factory.mktemp("profile") / "p.toml"
    text = HEAD + (
        f'[[servers]]\ndraft = "eagle3"\nnum_steps = {steps}\ntopk = {topk}\n'
        f"num_draft_tokens = {tokens}\ntp = {tp}\ncuda_graphs = {str(graphs).lower()}\n"
    )
    path.write_text(text + (f'label = "{label}"\n' if label else ""))
    (spec,) = load_profile(path, {}).servers
    parts = [f"eagle3-s{steps}k{topk}d{tokens}", f"tp{tp}" if tp > 1 else "", label or ""]
    assert spec.id == f"p/{'-'.join(filter(None, parts))}/{'graph' if graphs else 'eager'}"
    assert all(SLUG.fullmatch(part) for part in spec.id.split("/"))
