"""One row is all that a setting takes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from draftgate.catalog import expand, settings
from draftgate.catalog.kinds import COUNT
from draftgate.catalog.setting import REQUIRED, Flag, Setting
from draftgate.catalog.settings import SETTINGS, flag_owners, rows_of
from draftgate.catalog.spec import Draft, Prompts, ServerSpec, Speculation, Target, Throughput
from draftgate.engine import command
from draftgate.engine.interpreter import Interpreter
from draftgate.gate import flags as read_back
from draftgate.measure.record import recorded
from draftgate.measure.verdict import Status
from draftgate.preflight.options import known_releases, options_of
from packaging.version import Version

from tests.rebuild.profile_keys import tables
from tests.specs import value_after
from tests.unit.preflight.pairs import QWEN3_8B, TOLD, findings, qwen3

from .conftest import CHAIN, HEAD, Load, Refusal

PARTS = {
    "target": Target,
    "drafts": Draft,
    "prompts": Prompts,
    "throughput": Throughput,
}
ROW = Setting(
    "stream_interval",
    COUNT,
    "Tokens between two pieces of a streamed answer.",
    flag=Flag("--stream-interval"),
    info="stream_interval",
    also=("defaults", "gpu", "cpu"),
)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ROW` among the rows, and its attribute in the spec."""
    monkeypatch.setattr(settings, "SETTINGS", (*SETTINGS, ROW))
    spec = dataclasses.make_dataclass(
        "ServerSpec", [(ROW.key, int, None)], bases=(ServerSpec,), frozen=True
    )
    monkeypatch.setattr(expand, "ServerSpec", spec)


@pytest.mark.usefixtures("added")
def test_one_row_adds_a_setting_everywhere(load: Load, refusal: Refusal, tmp_path: Path) -> None:
    # The TOML file: type, bounds, every table it may stand in, the later one wins.
    assert refusal(HEAD + CHAIN + "stream_interval = 0") == [
        "servers[0].stream_interval: expected a number >= 1, got 0"
    ]
    none, chain = load(
        HEAD
        + "[defaults]\nstream_interval = 2\n[[servers]]"
        + CHAIN
        + "gpu = { stream_interval = 3 }"
    ).servers
    assert [ROW.of(none), ROW.of(chain)] == [2, 3]
    # The command line.
    words = command.build_command(
        chain,
        interpreter=Interpreter(Path("python"), Version("0.5.23"), tmp_path),
        target_path="t",
        draft_path="d",
        port=1,
        served_model_name="n",
    )
    assert value_after(words, "--stream-interval") == "3"
    # The refusal in `args`, and of SGLang's own name as a key.
    assert refusal(HEAD + CHAIN + 'args = ["--stream-int", "3"]') == [
        "servers[0].args: --stream-int may not be given here (it can stand for "
        "--stream-interval): use the key 'stream_interval'"
    ]
    # What the server says it runs.
    reply = {
        **read_back.expected_flags(chain, target_path="t", draft_path="d"),
        "disable_cuda_graph": False,
    }
    for runs, status in ((3, Status.PASS), (1, Status.FAIL)):
        told = {**reply, "stream_interval": runs}
        verdict = read_back.judge_flags(chain, told, target_path="t", draft_path="d")
        assert verdict.status is status
    assert verdict.reasons == ("stream_interval: asked for 3, the server runs 1",)
    # The record.
    assert recorded(chain).settings["stream_interval"] == 3
    # Lint of a command line.
    (found,) = findings(tmp_path, QWEN3_8B, qwen3(), "0.5.23", f"{TOLD} --stream-interval 0")
    assert (found.rule, found.message) == (
        "flag-values",
        "--stream-interval takes whole numbers from 1 up, not 0",
    )
    # The page.
    assert (
        "| `stream_interval` | int | none | `defaults`, `gpu`, `cpu` | Tokens between two pieces "
        "of a streamed answer. |"
    ) in tables()


def test_rows_and_attributes_agree() -> None:
    """Each key has an attribute, with the same default where the dataclass gives one."""
    for table, part in PARTS.items():
        fields = {field.name: field for field in dataclasses.fields(part)}
        assert {row.key for row in rows_of(table)} == set(fields) - {"name"}
        for row in rows_of(table):
            default = fields[row.key].default
            if default is not dataclasses.MISSING:
                assert default == row.default, row.key
            elif part in (Target, Draft):
                assert row.default is REQUIRED, row.key
    server = {field.name: field for field in dataclasses.fields(ServerSpec)}
    numbers = {field.name for field in dataclasses.fields(Speculation)}
    no_attribute = {"label", "devices", "gpu", "cpu"}
    for row in rows_of("servers"):
        assert (row.key in {*server, *numbers}) != (row.key in no_attribute), row.key
        if row.key in server and server[row.key].default is not dataclasses.MISSING:
            assert row.default == (server[row.key].default or row.default), row.key
    made = {"id", "profile", "source", "device", "target", "speculation", "reference_id"}
    assert set(server) - {row.key for row in rows_of("servers")} == made | {"one_rank_id"}


@pytest.mark.parametrize("release", known_releases(), ids=str)
def test_every_release_has_the_flag_of_every_row(release: Version) -> None:
    for row in SETTINGS:
        if row.flag is None:
            continue
        newest = row.flag.since is None or release >= row.flag.since
        flag = row.flag if newest else row.older
        assert flag is not None
        assert flag.name in options_of(release), row.key


def test_sglang_s_own_names_lead_to_the_keys() -> None:
    assert {
        flag: owner.spelled if (owner := flag_owners().get(flag)) else None
        for flag in ("--speculative-eagle-topk", "--model", "--cuda-graph-bs", "--page-size")
    } == {
        "--speculative-eagle-topk": "topk",
        "--model": "[target] path",
        "--cuda-graph-bs": "graph_max_batch",
        "--page-size": None,
    }
