"""What two H200s accepted and were fed, judged again (docs/gpu.md, "Several GPUs")."""

from __future__ import annotations

import re

import pytest
from draftgate.gate.acceptance import judge_several_gpus
from draftgate.measure.record import BootRecord
from draftgate.measure.record_file import read_record
from draftgate.measure.verdict import Status

from tests.conftest import ROOT

RECORDS = ROOT / "docs/records"


def only_boot(record: str, server: str) -> BootRecord:
    (boot,) = read_record(RECORDS / f"h200x2-{record}-sglang-0.5.16.json").servers[server].boots
    return boot


@pytest.mark.parametrize(
    ("server", "ranks"),
    [("tp2/graph", 2), ("tp2/eager", 2), ("dp2/graph", 1)],
)
def test_the_pair_takes_the_verify_steps_of_one_gpu(server: str, ranks: int) -> None:
    one = only_boot("tiny-2gpu", "tiny-2gpu/eagle3-s3k1d4/graph")
    boot = only_boot("tiny-2gpu", f"tiny-2gpu/eagle3-s3k1d4-{server}")
    verdict = judge_several_gpus(boot.acceptance, one.acceptance, exact=True)
    assert verdict.status is Status.PASS
    assert sum(prompt.verify_steps for prompt in boot.acceptance.prompts) == 1162
    assert boot.layers.fed == (1, 3, 5)
    assert boot.layers.distances == (0.0, 0.0, 0.0)
    assert (boot.layers.ranks, boot.layers.ranks_agree) == (ranks, True)


@pytest.mark.parametrize(("graphs", "draft_steps"), [("graph", ()), ("eager", (7168,))])
def test_both_ranks_of_kimis_widths_are_fed_the_same_layers(
    graphs: str, draft_steps: tuple[int, ...]
) -> None:
    boot = only_boot("kimi-k25-shape-2gpu", f"kimi-k25-shape-2gpu/eagle3-s3k1d4-tp2/{graphs}")
    assert (boot.widths.fc_in, boot.widths.returned) == (21504, 21504)
    assert tuple(boot.widths.draft_steps) == draft_steps
    assert boot.layers.fed == (1, 29, 57)
    assert boot.layers.distances == (0.0, 0.0, 0.0)
    assert (boot.layers.ranks, boot.layers.ranks_agree) == (2, True)


def test_each_server_was_booted_once_by_two_workers() -> None:
    record = read_record(RECORDS / "h200x2-tiny-two-workers-sglang-0.5.16.json")
    assert {name: len(server.boots) for name, server in record.servers.items()} == dict.fromkeys(
        (
            f"tiny/{cell}/{graphs}"
            for cell in ("none", "eagle3-s3k1d4", "eagle3-s5k1d6", "eagle3-s3k4d8")
            for graphs in ("graph", "eager")
        ),
        1,
    )
    commands = " ".join(server.boots[0].command[0] for server in record.servers.values())
    ports = re.findall(r"--port (\d+)", commands)
    assert len(set(ports)) == len(record.servers)
