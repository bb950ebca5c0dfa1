"""Who is guilty, on records in which one thing is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from draftgate.diagnosis.conclusion import Guilt, conclude_server
from draftgate.measure.record import BootRecord, Layers, ServerRecord
from draftgate.measure.samples import DraftAlone
from draftgate.measure.verdict import Metric, Status

from tests.asked import asked

LAYERS = Layers((1, 3, 5), (1, 3, 5), (0.0, 0.0, 0.0), "weights", 1, True)
GOOD = (23, 20, 17, 229)
BAD = (764, 126, 0, 0)
ALONE = DraftAlone(8, 128, 1, server_steps=sum(BAD), server=BAD, fed=BAD)


def concluded(boot, *verdicts, **spec):
    server = ServerRecord("tiny/x", asked(**spec), boots=(boot,), verdicts=verdicts)
    found = conclude_server(server)
    assert len(str(found).splitlines()) < 10
    return found


def boot(layers=LAYERS, alone=ALONE, **environment):
    return BootRecord(0, layers=layers, alone=alone, environment=environment)


def test_the_draft_where_it_does_the_same_alone():
    found = concluded(boot())
    assert found.guilt is Guilt.DRAFT
    assert "does alone what it does in the server" in found.sentence
    assert "[764, 126, 0, 0], equal to the count" in str(found)
    assert "nobody says" not in found.sentence
    assert "nobody says" in concluded(boot(replace(LAYERS, expected=None))).sentence


def test_the_wiring_where_the_layers_are_others():
    layers = replace(LAYERS, expected=(-1, 1, 3))
    found = concluded(boot(layers, replace(ALONE, right=GOOD)))
    assert found.guilt is Guilt.WIRING
    assert found.sentence == "the draft was trained on [embedding, 1, 3], fed [1, 3, 5]"
    assert "on the layers it was trained on: acceptance length 3.543" in str(found)
    assert "layer_ids in the draft's config.json to [-1, 1, 3]" in found.remedy


def test_the_wiring_where_nothing_is_captured():
    found = concluded(boot(replace(LAYERS, fed=(-2,))))
    assert found.guilt is Guilt.WIRING
    assert "fed [final norm]" in found.sentence
    assert "EAGLE3" in found.remedy


def test_the_engine_where_it_does_worse_than_the_draft_alone():
    found = concluded(boot(alone=replace(ALONE, fed=GOOD)))
    assert found.guilt is Guilt.WIRING
    assert "the draft alone accepts 3.543, in the engine 1.151" in found.sentence
    assert "histograms [23, 20, 17, 229] and [764, 126, 0, 0]" in str(found)


def test_a_simulation_where_it_does_better():
    alone = replace(ALONE, server=GOOD, server_steps=sum(GOOD))
    found = concluded(boot(alone=alone))
    assert found.guilt is Guilt.CONFIGURATION
    assert "reports 3.543, more than the 1.151" in found.sentence
    # A tree may do better than the chain that is replayed.
    assert concluded(boot(alone=replace(alone, topk=4))).guilt is Guilt.DRAFT


def test_a_difference_within_rounding_is_none():
    near = (23, 21, 17, 229)
    found = concluded(boot(alone=replace(ALONE, server=near, server_steps=290, fed=GOOD)))
    assert found.guilt is Guilt.DRAFT
    assert "histograms [23, 20, 17, 229] and [23, 21, 17, 229]" in str(found)


def test_on_a_cpu_rounding_is_the_same_and_a_small_difference_is_one():
    fewer = replace(ALONE, server=(20, 19, 10, 171), server_steps=220, fed=(18, 19, 8, 173))
    assert concluded(boot(alone=fewer)).guilt is Guilt.DRAFT
    assert concluded(boot(alone=fewer), device="cpu").guilt is Guilt.WIRING
    assert concluded(boot(alone=replace(fewer, topk=4)), device="cpu").guilt is Guilt.DRAFT
    assert concluded(boot(alone=fewer), device="cpu", exact_text=False).guilt is Guilt.DRAFT


def test_the_configuration_first():
    flags = Metric.FLAGS.verdict(Status.FAIL, "num_steps: asked for 3, runs 1")
    found = concluded(boot(), flags)
    assert (found.guilt, found.sentence) == (Guilt.CONFIGURATION, flags.reasons[0])
    found = concluded(boot(SGLANG_SIMULATE_ACC_LEN="2.1"), flags)
    assert found.guilt is Guilt.CONFIGURATION
    assert "SGLANG_SIMULATE_ACC_LEN makes the server report" in found.sentence


def test_the_checkpoint_where_it_lacks_a_tensor():
    lacking = replace(ALONE, fed=None, broken="the draft has no lm_head.weight, and SGLang ...")
    found = concluded(boot(alone=lacking))
    assert found.guilt is Guilt.DRAFT
    assert found.sentence.startswith("the draft has no lm_head.weight")


@pytest.mark.parametrize(
    ("alone", "why"),
    [
        (None, "the draft was not replayed alone"),
        (replace(ALONE, fed=None, reason="the draft is MLA"), "the draft is MLA"),
    ],
)
def test_nobody_where_the_draft_was_not_replayed(alone, why):
    found = concluded(boot(alone=alone))
    assert found.guilt is Guilt.UNKNOWN
    assert found.sentence.endswith(f"unknown: {why}")
