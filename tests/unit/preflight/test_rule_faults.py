"""Each fault is named by its rule, first and with the words that matter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from draftgate.preflight.rules import RULES

from tests.unit.preflight.checkpoints import LAYER_IDS, Model, llama_draft, mla_draft, target
from tests.unit.preflight.pairs import (
    GPT_OSS,
    KIMI,
    LLAMA_8B,
    LLAMA_70B,
    QWEN3_8B,
    QWEN3_MOE,
    TOLD,
    alarms,
    config,
    eagle_config,
    findings,
    gpt_oss_v3,
    ids,
    kimi,
    llama_8b,
    nothing_left,
    own_embedding,
    qwen3,
    shape,
    told,
    trained_on,
    values,
    with_shapes,
    without,
)


@dataclass
class Fault:
    """What turns a healthy pair into one that `rule` names in `words`."""

    rule: str
    words: str
    served: Model = field(default_factory=lambda: LLAMA_8B)
    draft: Callable[[], Model] = llama_8b
    edit: Callable[[Model], object] = lambda draft: None
    version: str = "0.5.23"
    flags: str = TOLD
    environment: dict[str, str] = field(default_factory=dict)
    severity: str = "error"
    also: tuple[str, ...] = ()
    """Rules that rightly say more of the same fault."""


QWEN: dict[str, Any] = {"served": QWEN3_8B, "draft": qwen3}
FAULTS = [
    Fault("other-model", "the command line serves elsewhere", flags=told("--model elsewhere")),
    Fault(
        "other-model",
        "--draft names another model",
        flags=told("--speculative-draft-model-path=elsewhere"),
    ),
    Fault("target-class", "the target is a draft (LlamaForCausalLMEagle3)", llama_8b()),
    Fault("weights", "the draft's folder holds no weights", edit=nothing_left),
    # cases of an algorithm that is not the draft's
    Fault(
        "algorithm", "names no architecture", edit=lambda draft: draft.config.pop("architectures")
    ),
    Fault(
        "draft-numbers",
        "no draft can be served",
        flags=TOLD.replace("--speculative-num-steps 3", "--speculative-num-steps -3"),
    ),
    Fault("algorithm", "its fc is skipped", flags=TOLD.replace("EAGLE3", "EAGLE")),
    Fault("algorithm", "told algorithm NEXTN", flags=TOLD.replace("EAGLE3", "NEXTN")),
    Fault("algorithm", "does not speculate", flags="--context-length 2048"),
    Fault(
        "algorithm", "in capitals only", flags=TOLD.replace("EAGLE3", "eagle3"), version="0.5.11"
    ),
    Fault(
        "algorithm",
        "not an EAGLE-3 draft",
        edit=config(architectures=["LlamaForCausalLMEagle"]),
    ),
    Fault(
        "draft-class", "no class Eagle3Speculator", edit=config(architectures=["Eagle3Speculator"])
    ),
    Fault(
        "draft-class",
        "refuses to start",
        KIMI,
        lambda: mla_draft(7168, 163840, ids=[1, 29, 57]),
        version="0.5.11",
    ),
    Fault(
        "draft-class", "takes one", draft=lambda: llama_8b(num_hidden_layers=32), version="0.5.11"
    ),
    Fault(
        "other-target",
        "trained for a target of other weights",
        Model(LLAMA_8B.config, {"model.norm.weight": (4096,)}),
        edit=lambda draft: draft.metadata.update({"eagle3.target_sha256": "0" * 64}),
        severity="warning",
    ),
    # widths and number of states
    Fault("fc-width", "12288-wide", edit=shape("fc.weight", 4096, 4096)),
    Fault("fc-width", "24576-wide", LLAMA_70B, own_embedding, edit=shape("fc.weight", 6144, 18432)),
    Fault(
        "fc-width", "use_aux_hidden_state is false", edit=eagle_config(use_aux_hidden_state=False)
    ),
    Fault(
        "fc-width",
        "builds every fc for three",
        QWEN3_8B,
        lambda: llama_draft(4096, 151936, ids=[9, 25], states=2),
        version="0.5.11",
    ),
    Fault(
        "taps",
        "3 layer ids and num_aux_hidden_states 4",
        **QWEN,
        edit=config(num_aux_hidden_states=4),
        also=("fc-width",),
    ),
    Fault("taps", "no layer ids", edit=config(num_aux_hidden_states=2), also=("fc-width",)),
    Fault("target-width", "hidden size 4096, this target has 2048", QWEN3_MOE, qwen3),
    Fault("target-width", "TypeError", edit=config(target_hidden_size=None)),
    # layers
    Fault(
        "layer-ids-unread",
        "captures its default layers [1, 15, 28], not those of ids [3, 16, 25]",
        edit=config(**{LAYER_IDS: [3, 16, 25]}),
    ),
    Fault("layers-lost", "captures 2 layers [17, 32] of the 3", **QWEN, edit=ids(17, 17, 32)),
    Fault("layers-lost", "captures 2 layers [1, 17] of the 3", **QWEN, edit=ids(1, 17, 35)),
    Fault("layers-lost", "captures 2 layers [1, 29] of the 3", KIMI, kimi, edit=ids(-1, 2, 30)),
    Fault("layers-lost", "cannot hand over the embedding", edit=ids(-1, 1, 3), version="0.5.21"),
    Fault(
        "layers-lost",
        "captures 2 layers [24, 30] of the 3",
        GPT_OSS,
        lambda: llama_draft(2880, 201088, ids=[24, 30, 36]),
        version="0.5.16",
    ),
    Fault(
        "layers-moved",
        "trained on layers [2, 30, 58] and would be fed [1, 29, 57]",
        KIMI,
        lambda: trained_on(kimi(ids=[2, 30, 58]), [2, 30, 58]),
        version="0.5.13",
    ),
    Fault(
        "layers-moved",
        "trained on layers [1, 3, 5] and would be fed [1, 15, 28]",
        draft=lambda: trained_on(llama_8b(), [1, 3, 5]),
    ),
    Fault(
        "layers-in-graphs",
        "layers [1, 17, 32] in CUDA graphs and [5, 17, 28] without",
        QWEN3_8B,
        lambda: qwen3(ids=[5, 17, 28]),
        version="0.5.10",
    ),
    Fault(
        "layers-unknown",
        "is not on record",
        target("NewForCausalLM", 32, 4096, 128256),
        severity="info",
    ),
    Fault(
        "layers-unknown",
        "layers [1, 29, 57], and before SGLang 0.5.13 the same ids meant [2, 30, 58]",
        KIMI,
        lambda: kimi(ids=[2, 30, 58]),
        severity="info",
    ),
    Fault(
        "layers-unknown",
        "captures [2, 18, 33], each one layer later than without ids ([1, 17, 32])",
        **QWEN,
        edit=ids(2, 18, 33),
        severity="info",
    ),
    # tensors
    Fault("lm-head", "no lm_head.weight", edit=without("lm_head.weight")),
    Fault("lm-head", "drops the draft's lm_head.weight", edit=config(tie_word_embeddings=True)),
    Fault(
        "lm-head",
        "replaces the draft's lm_head.weight",
        GPT_OSS,
        lambda: with_shapes(
            llama_draft(2880, 201088, draft_vocab=None, ids=[1, 17, 32]),
            {"lm_head.weight": (201088, 2880)},
        ),
        severity="info",
    ),
    Fault(
        "norm-flags", "trained with norm_output", edit=config(norm_output=True), version="0.5.11"
    ),
    Fault("norm-flags", "stands in eagle_config", edit=eagle_config(norm_output=True)),
    Fault(
        "norm-flags",
        "ignores it",
        KIMI,
        lambda: mla_draft(7168, 163840, ids=[1, 29, 57], norm_before_fc=True),
    ),
    Fault("tensors-dropped", "input_norm.weight", edit=shape("input_norm.weight", 12288)),
    Fault("tensors-dropped", "q_proj.bias", edit=shape("midlayer.self_attn.q_proj.bias", 8192)),
    Fault(
        "tensors-dropped", "verifier.head", edit=shape("verifier.head", 8, 8), severity="warning"
    ),
    Fault(
        "tensors-dropped",
        "and 6 more",
        draft=lambda: llama_8b(first_layer="layers.0"),
        version="0.5.11",
        also=("tensors-missing",),
    ),
    Fault(
        "tensors-missing",
        "layers.0.hidden_norm.weight",
        edit=without("midlayer.hidden_norm.weight"),
    ),
    Fault(
        "tensors-missing",
        "embed_tokens.weight",
        LLAMA_70B,
        own_embedding,
        edit=without("embed_tokens.weight"),
    ),
    Fault(
        "tensors-missing",
        "layers.1.self_attn.q_proj.weight",
        edit=lambda d: d.config.pop("num_hidden_layers"),
    ),
    Fault("tensors-missing", "fc_norm.0.weight", **QWEN, edit=config(fc_norm=True)),
    Fault("tensors-missing", "input_norm.weight", **QWEN, edit=eagle_config(norm_before_fc=True)),
    Fault(
        "tensor-shapes",
        "q_proj.weight is [8192, 4096], and by the config SGLang builds [8192, 8192]",
        edit=shape("midlayer.self_attn.q_proj.weight", 8192, 4096),
    ),
    Fault(
        "random-weights",
        "acceptance length will be 1.0",
        flags=told("--speculative-draft-load-format dummy"),
        severity="warning",
    ),
    # vocabularies
    Fault(
        "vocabulary",
        "vocabulary of 128000, this target has 128256",
        edit=config(vocab_size=128000),
        also=("token-map",),
    ),
    Fault(
        "draft-vocabulary",
        "has no draft_vocab_size",
        edit=lambda d: d.config.pop("draft_vocab_size"),
    ),
    Fault(
        "draft-vocabulary",
        "is larger than vocab_size",
        edit=config(draft_vocab_size=200000),
        also=("tensor-shapes", "token-map"),
    ),
    Fault("token-map", "and no d2t", edit=lambda d: d.values.clear()),
    Fault("token-map", "31999 entries", edit=values("d2t", lambda d2t: d2t[1:])),
    Fault("token-map", "not increasing", edit=values("d2t", lambda d2t: [*d2t[:7], 99, *d2t[8:]])),
    Fault(
        "token-map", "outside", edit=values("d2t", lambda d2t: [i + x for i, x in enumerate(d2t)])
    ),
    Fault("token-map", "disagrees with t2d", edit=values("d2t", lambda d2t: [0] * len(d2t))),
    Fault(
        "token-map",
        "d2t has 3 entries for a draft vocabulary of 201088",
        GPT_OSS,
        gpt_oss_v3,
        edit=lambda d: d.values.update({"d2t": [0, 0, 0]}),
    ),
    # flags
    Fault("unknown-flag", "as ambiguous", flags=told("--cuda-graph-max-bs 64")),
    Fault("unknown-flag", "as ambiguous", flags=told("--speculative-draft x")),
    Fault(
        "unknown-flag",
        "has no flag --enable-piecewise-cuda-graph",
        flags=told("--enable-piecewise-cuda-graph"),
    ),
    Fault(
        "unknown-flag",
        "has no flag --cuda-graph-backend-decode",
        flags=told("--cuda-graph-backend-decode disabled"),
        version="0.5.13",
    ),
    Fault(
        "outdated-flag",
        "is taken for --mem-fraction-static",
        flags=told("--mem-frac 0.8"),
        severity="info",
    ),
    Fault("outdated-flag", "deprecated", flags=told("--disable-cuda-graph"), severity="info"),
    Fault(
        "draft-numbers",
        "serves 4 draft tokens (steps + 1), not 16",
        flags=TOLD.replace("tokens 4", "tokens 16"),
        severity="warning",
    ),
    Fault(
        "draft-numbers",
        "holds at most 11 draft tokens, not 64",
        flags=TOLD.replace("tokens 4", "tokens 64").replace("topk 1", "topk 2"),
    ),
    Fault("draft-numbers", "topk missing", flags=TOLD.replace("--speculative-eagle-topk 1 ", "")),
    Fault(
        "draft-numbers",
        "is left to SGLang",
        flags="--speculative-algorithm EAGLE3 --context-length 2048",
        severity="info",
    ),
    Fault("flag-values", "--tp-size takes whole numbers from 1 up", flags=told("--tp-size -1")),
    Fault("flag-values", "not nothing", flags=told("--dp-size")),
    Fault("flag-values", "not two", flags=told("--dp-size two")),
    Fault(
        "flag-values",
        "not 64 0",
        flags=told("--cuda-graph-bs-decode 64 0"),
    ),
    Fault(
        "flag-values",
        "--mem-fraction-static takes a number above 0 and at most 1, not 7",
        flags=told("--mem-fraction-static 7"),
    ),
    Fault(
        "ignored-flag",
        "brings its own d2t",
        flags=told("--speculative-token-map x"),
        severity="warning",
    ),
    Fault(
        "ignored-flag",
        "turns",
        flags=told("--enable-mixed-chunk"),
        version="0.5.18",
        severity="warning",
    ),
    Fault(
        "refused-tree",
        "takes topk 1 only",
        flags=told("--attention-backend trtllm_mha").replace("topk 1", "topk 4"),
    ),
    Fault(
        "refused-tree",
        "only with pages of one token",
        flags=told("--attention-backend flashmla --page-size 64").replace("topk 1", "topk 4"),
    ),
    Fault("refused-tree", "whole vocabulary", flags=told("--speculative-use-rejection-sampling")),
    # limits
    Fault(
        "positions",
        "max_position_embeddings 2048, the server a context length of 4096",
        edit=lambda d: d.config.pop("max_position_embeddings"),
        flags=TOLD.replace("2048", "4096"),
    ),
    Fault("positions", "refuses to start", flags=TOLD.replace("--context-length 2048", "")),
    Fault("positions", "context length of 8192", flags=TOLD.replace("2048", "8192")),
    Fault(
        "positions",
        "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN makes SGLang serve it",
        flags=TOLD.replace("2048", "8192"),
        environment={"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"},
        severity="warning",
    ),
    Fault(
        "graph-batches",
        "up to 48 requests (SGLang's default) run at once",
        flags=told("--cuda-graph-max-bs-decode 2"),
        severity="warning",
    ),
    Fault(
        "graph-batches",
        "up to 9 requests",
        flags=told("--cuda-graph-bs 1 2 4 8 --max-running-requests 9"),
        version="0.5.18",
        severity="warning",
    ),
    # environment
    Fault(
        "simulated-acceptance",
        "no acceptance test means anything",
        environment={"SGLANG_SIMULATE_ACC_LEN": "3.0"},
    ),
    Fault(
        "environment", "SGLANG_IS_IN_CI", environment={"SGLANG_IS_IN_CI": "1"}, severity="warning"
    ),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.rule}: {fault.words}")
def test_a_fault_is_named_by_its_rule_first(tmp_path, fault):
    draft = fault.draft()
    fault.edit(draft)
    found = findings(tmp_path, fault.served, draft, fault.version, fault.flags, fault.environment)
    told = found if fault.severity == "info" else alarms(found)
    assert [finding.rule for finding in told] == [fault.rule, *fault.also]
    assert told[0].severity == fault.severity
    assert fault.words in told[0].message
    assert told[0].evidence
    assert told[0].remedy
    assert "profile" not in told[0].remedy, "there is none: flags were given"
    assert " = " not in told[0].remedy


def test_every_rule_has_a_fault():
    assert {fault.rule for fault in FAULTS} == set(RULES)


@pytest.mark.parametrize(
    ("served", "draft", "version", "remedy"),
    [
        (KIMI, kimi(ids=[-1, 2, 30]), "0.5.16", "give [0, 3, 31] in their place"),
        (GPT_OSS, llama_draft(2880, 201088, ids=[24, 30, 36]), "0.5.16", "SGLang 0.5.17 or newer"),
        (QWEN3_8B, qwen3(ids=[17, 17, 32]), "0.5.23", "give distinct ids"),
        (KIMI, trained_on(kimi(ids=[2, 30, 58]), [2, 30, 58]), "0.5.23", "to [3, 31, 59] in"),
        (QWEN3_8B, trained_on(qwen3(), [2, 18, 33]), "0.5.23", "to [2, 18, 33] in"),
    ],
)
def test_the_remedy_of_wrong_layers_is_ids_that_work(tmp_path, served, draft, version, remedy):
    found = alarms(findings(tmp_path, served, draft, version, TOLD))
    assert remedy in found[0].remedy
