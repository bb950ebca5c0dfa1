from __future__ import annotations

from dataclasses import replace

import pytest
from draftgate.catalog.select import load_profiles, select
from draftgate.cli import main
from draftgate.diagnosis.of_record import diagnose_record
from draftgate.errors import BaselineError
from draftgate.measure.merge import merge_records
from draftgate.measure.record import recorded
from draftgate.measure.record_file import write_record
from draftgate.measure.verdict import Metric, Status
from draftgate.plugin.choice import ordered, share
from draftgate.report.page import render_page
from draftgate.report.rows import speed_up_of

from tests import states


def gpu_specs(profile="tiny"):
    profiles = load_profiles(())
    return [s for s in ordered(select(profiles, [profile], ["*/graph", "*/eager"]))]


def shards(record, count):
    """The record as that many hosts would have written it."""
    specs = [spec for spec in gpu_specs() if spec.id in record.servers]
    shares = [share(specs, i, count) for i in range(1, count + 1)]
    return [
        replace(record, servers={k: v for k, v in record.servers.items() if k in own})
        for own in shares
    ]


@pytest.mark.parametrize("state", ["green", "red"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_merged_shards_render_as_one_host(state, count):
    whole = getattr(states, state)()
    merged = merge_records(shards(whole, count))
    assert list(merged.servers) == list(whole.servers)
    assert merged == whole
    assert render_page(merged) == render_page(whole)


@pytest.mark.parametrize("profile", ["tiny", "tiny-2gpu", "llama-8b-shape"])
def test_every_server_is_in_a_share_with_what_it_is_compared_with(profile):
    specs = gpu_specs(profile)
    known = {spec.id for spec in specs}
    shares = [share(specs, i, 3) for i in (1, 2, 3)]
    assert set().union(*shares) == known
    for own in shares:
        for spec in specs:
            if spec.id in own:
                assert own.issuperset(known.intersection(spec.compared_with))
    several = {s.one_rank_id for s in specs}
    speculating = {s.id for s in specs if s.speculation and s.id not in several}
    assert sum(len(own & speculating) for own in shares) == len(speculating)


def test_a_merged_record_has_its_servers_in_the_order_they_run():
    green = states.green()
    like = next(iter(green.servers.values()))
    servers = {
        spec.id: replace(
            like,
            id=spec.id,
            spec=recorded(spec),
        )
        for spec in load_profiles(())["tiny-2gpu"].servers
    }
    merged = merge_records([replace(green, servers=servers)])
    assert list(merged.servers) == [spec.id for spec in gpu_specs("tiny-2gpu")]
    assert list(merged.servers) != list(servers)


def test_the_worse_of_two_references_is_told():
    one, two = shards(states.green(), 2)
    reference = two.servers["tiny/none/graph"]
    failed = replace(reference, outcomes={**reference.outcomes, "speed": "failed"})
    two = replace(two, servers={**two.servers, failed.id: failed})
    for pair in ((one, two), (two, one)):
        assert merge_records(pair).servers[failed.id] == failed


def test_what_one_shard_measured_is_not_missing():
    one, two = shards(states.green(), 2)
    lost = "tiny/eagle3-s3k4d8/graph"
    one = replace(one, not_measured={lost: "needs 1 GPU"}, missing=(lost,))
    merged = merge_records([one, two])
    assert merged.not_measured == {}
    assert merged.missing == ()
    assert merged.green


def test_two_hosts_are_no_machine_of_which_speed_is_compared():
    one, two = shards(states.green(), 2)
    two = replace(two, machine=replace(two.machine, gpu_uuids=("GPU-2",)))
    machine = merge_records([one, two]).machine
    assert machine.machine_class == "h200x1"
    assert machine.gpu_uuids == ()
    assert machine.host == ""


def test_no_speed_is_compared_with_that_of_another_host(make_record):
    one = make_record("one", none=(50.0,))
    two = make_record("two", machine=replace(one.machine, host="h1"))
    judged = Metric.SPEED_UP.verdict(Status.PASS, value=2.0)
    alone = {k: v for k, v in two.servers.items() if v.spec.speculation}
    (spec,) = alone
    for verdicts, gain in (((judged,), 2.0), ((), None)):
        two = replace(two, servers={spec: replace(alone[spec], verdicts=verdicts)})
        none_alone = {k: v for k, v in one.servers.items() if k != spec}
        merged = merge_records([replace(one, servers=none_alone), two])
        assert speed_up_of(merged, merged.servers[spec]) == gain
        assert "break-even" not in diagnose_record(merged, [spec], [])
    same = replace(two, machine=one.machine)
    merged = merge_records([replace(one, servers=none_alone), same])
    assert speed_up_of(merged, merged.servers[spec]) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("sglang", "machine_class", "words"),
    [
        ("0.5.17", "h200x1", "sglang is 0.5.16 and 0.5.17"),
        ("0.5.16", "h100x1", "machine class is h200x1 and h100x1"),
    ],
)
def test_other_software_or_machines_are_refused(sglang, machine_class, words):
    one, two = shards(states.green(), 2)
    two = replace(
        two,
        software={**two.software, "sglang": sglang},
        machine=replace(two.machine, machine_class=machine_class),
    )
    with pytest.raises(BaselineError, match=words):
        merge_records([one, two])


def test_the_commands(tmp_path, capsys):
    files = []
    for index, record in enumerate(shards(states.green(), 2)):
        folder = tmp_path / f"host-{index}"
        folder.mkdir()
        files.append(str(folder / "record.json"))
        write_record(replace(record, session=f"host-{index}"), folder / "record.json")
    merged = tmp_path / "merged.json"
    assert main(["merge", *files, "-o", str(merged)]) == 0
    assert capsys.readouterr().out == f"8 servers of 2 records: {merged}\n"
    page, markdown = tmp_path / "night.html", tmp_path / "night.md"
    assert main(["report", *files, "--html", str(page), "--markdown", str(markdown)]) == 0
    assert capsys.readouterr().out == f"{page}\n{markdown}\n"
    assert "8 servers, all green." in page.read_text()
    assert markdown.read_text().startswith("## ✅ 8 servers, all green.")
