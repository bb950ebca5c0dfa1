from __future__ import annotations

from dataclasses import replace

import pytest
from draftgate.gate.history import baseline_of
from draftgate.gate.throughput import judge_speed
from draftgate.report.slowdown import explain

SPEC = "tiny/eagle3-s3k1d4/cpu"


@pytest.fixture
def told(make_record, history):
    def told(**changes) -> list[str]:
        accepted = history(0.5, -0.5, 1, -1, 0)
        record = make_record(**changes)
        verdicts = judge_speed(record, SPEC, accepted)
        text = explain(record, SPEC, verdicts, baseline_of(record, SPEC, accepted))
        assert len(text.splitlines()) <= 10
        return text.splitlines()

    return told


def test_a_slower_engine(told):
    software = {"sglang": "0.5.24", "torch": "2.14.1"}
    assert told(spec=(160.0,), software=software, resolved={"page_size": 1, "new": 3}) == [
        "  throughput    regression: slower: 160 tok/s against 200 (-20.0%, 95 % -21.9% to -18.1%; "
        "limit -3.2%)",
        "  verify steps  regression: slower: 45.63 steps/s against 57.03 (-20.0%, 95 % -21.9% to "
        "-18.1%; limit -3.2%)",
        "  speed-up      regression: slower: 1.6 x against 2 (-20.0%, 95 % -20.7% to -19.3%; "
        "limit -2.0%)",
        "  acceptance    3.507 -> 3.507 tokens a verify step in these rounds",
        "  baseline      5 accepted sessions, 5 of them on this machine; newest s004",
        "  software      sglang 0.5.23 -> 0.5.24",
        "  machine       unchanged since",
        "  guilty        engine speed: as much is accepted as before, and each verify step takes "
        "longer",
        "  next          draftgate ab --reference OLD_PYTHON --candidate NEW_PYTHON --server "
        f"{SPEC} confirms it; if it is meant: draftgate accept RECORD --lower --reason TEXT",
    ]


def test_a_slower_machine_is_called_one(told):
    lines = told(none=(80.0,), spec=(160.0,))
    assert lines[0].startswith("  throughput    machine drift: slower: 160 tok/s against 200")
    assert "  software      unchanged since" in lines
    assert "  guilty        machine: steps take longer, and so does the server without" in lines[-2]
    assert lines[-1].endswith(
        "look for another load on this machine (nvidia-smi, top); measure again"
    )


def test_another_card_is_named(told, make_record):
    elsewhere = replace(make_record().machine, host="h1")
    lines = told(spec=(150.0,), machine=elsewhere)
    assert "  machine       host h0 -> h1" in lines
    assert lines[2].startswith("  speed-up      regression: slower: 1.5 x against 2 (-25.0%")


def test_a_changed_variable_and_many_changed_arguments_stay_one_line(told):
    many = {f"argument_{i}": i for i in range(50)}
    lines = told(spec=(160.0,), resolved={"attention_backend": "fa3", **many})
    assert max(map(len, lines)) < 200
