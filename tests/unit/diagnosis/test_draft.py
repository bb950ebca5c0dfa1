"""The replayed draft against the network that trained it, and over the shapes drafts come in."""

from __future__ import annotations

import json

import pytest
from draftgate.models.location import BUILTIN_FOLDER

from tests.unit.diagnosis.conftest import NEW, PROMPT

torch = pytest.importorskip("torch")

PLAIN = BUILTIN_FOLDER / "tiny-eagle3"
LAYERS = {"tiny-eagle3": (1, 3, 5), "tiny-eagle3-embed": (-1, 1, 3)}


@pytest.fixture
def parts():
    """config (float32), tensors and embedding of a built-in draft, to be changed by a test."""

    def parts(name="tiny-eagle3"):
        from safetensors.torch import load_file

        config = json.loads((BUILTIN_FOLDER / name / "config.json").read_text())
        tensors = load_file(BUILTIN_FOLDER / name / "model.safetensors")
        embedding = load_file(BUILTIN_FOLDER / "tiny" / "model.safetensors")[
            "model.embed_tokens.weight"
        ].float()
        return config | {"torch_dtype": "float32"}, tensors, embedding

    return parts


def make(config, tensors, embedding, *, head=None, **more):
    from draftgate_replay.draft import Draft

    return Draft(config, tensors, embedding, head, device="cpu", **more)


def counts(draft, served, states, steps):
    from draftgate_replay.__main__ import histogram

    total = [0] * (steps + 1)
    for text, fed in zip(served.tokens, states, strict=True):
        proposed = draft.proposals(text, fed[: PROMPT + NEW - 2], PROMPT - 1, steps)
        ahead = text.unfold(0, steps, 1)[PROMPT + 1 : PROMPT + 1 + len(proposed)]
        for accepted, count in histogram((proposed == ahead).tolist(), NEW).items():
            total[accepted] += count
    return tuple(total)


@pytest.mark.parametrize("steps", [1, 3, 5])
@pytest.mark.parametrize("name", LAYERS)
def test_counts_what_training_counts(served, parts, name, steps):
    trained = served.counted_in_training(BUILTIN_FOLDER / name, LAYERS[name], steps)
    draft = make(*parts(name))
    assert counts(draft, served, served.states(LAYERS[name]), steps) == trained


def test_counts_what_training_counts_on_wrong_layers(served, parts):
    trained = served.counted_in_training(PLAIN, (2, 4, 6), 3)
    assert counts(make(*parts()), served, served.states((2, 4, 6)), 3) == trained


@pytest.fixture
def same(served, parts):
    """Assert that a draft proposes what the built-in one proposes, at every row and step."""
    states = served.states((1, 3, 5))
    text = served.tokens[0]
    expected = make(*parts()).proposals(text, states[0], 0, 4)

    def same(draft):
        assert torch.equal(draft.proposals(text, states[0], 0, 4), expected)

    return same


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_rows_may_be_computed_in_any_portions(same, parts, chunk):
    same(make(*parts(), chunk=chunk))


def test_only_rows_asked_for_are_given(served, parts):
    text, fed = served.tokens[0], served.states((1, 3, 5))[0]
    draft = make(*parts(), chunk=16)
    whole = draft.proposals(text, fed, 0, 2)
    assert torch.equal(draft.proposals(text, fed, 40, 2), whole[40:])


def test_keys_need_not_be_shared_by_heads(same, parts):
    config, tensors, embedding = parts()
    for name in ("midlayer.self_attn.k_proj.weight", "midlayer.self_attn.v_proj.weight"):
        heads = tensors[name].unflatten(0, (2, 16))
        tensors[name] = heads.repeat_interleave(2, dim=0).flatten(0, 1)
    same(make(config | {"num_key_value_heads": 4}, tensors, embedding))


def test_more_layers(same, parts):
    config, tensors, embedding = parts()
    second = {
        "layers.1." + name.removeprefix("midlayer."): tensor
        for name, tensor in tensors.items()
        if name.startswith("midlayer.") and "input_layernorm" not in name
    }
    for name in ("q_proj", "k_proj", "v_proj"):
        key = f"layers.1.self_attn.{name}.weight"
        second[key] = second[key][:, :64]
    for name in ("self_attn.o_proj", "mlp.down_proj"):  # it adds nothing to the stream
        second[f"layers.1.{name}.weight"] = second[f"layers.1.{name}.weight"] * 0
    same(make(config | {"num_hidden_layers": 2}, tensors | second, embedding))


def test_a_whole_vocabulary_needs_no_map(parts):
    config, tensors, embedding = parts()
    del tensors["d2t"]
    tensors["lm_head.weight"] = torch.zeros(128, 64)
    draft = make(config | {"draft_vocab_size": 128}, tensors, embedding)
    assert draft.target_ids.tolist() == list(range(128))


def test_the_target_lends_its_head_where_the_config_asks_for_it(same, parts):
    config, tensors, embedding = parts()
    head = tensors.pop("lm_head.weight")
    same(make(config | {"draft_vocab_size": None}, tensors, embedding, head=head))


def test_a_target_without_a_head_lends_its_embedding(served, parts):
    config, tensors, embedding = parts()
    del tensors["lm_head.weight"], tensors["d2t"]
    tied, given = (
        make(config | {"draft_vocab_size": None}, tensors, embedding, head=head)
        for head in (None, embedding)
    )
    states = served.states((1, 3, 5))[0]
    proposed = tied.proposals(served.tokens[0], states, 0, 2)
    assert torch.equal(proposed, given.proposals(served.tokens[0], states, 0, 2))


def test_a_norm_of_each_part_before_fc(parts, served):
    config, tensors, embedding = parts()
    states = served.states((1, 3, 5))[0]
    scale = states.unflatten(-1, (3, 64)).pow(2).mean(-1, keepdim=True).add(1e-6).sqrt()
    norms = {f"aux_norm_{place}.weight": torch.ones(64) for place in ("low", "mid", "high")}
    draft = make(config | {"use_aux_norm": True}, tensors | norms, embedding)
    normed = (states.unflatten(-1, (3, 64)) / scale).flatten(-2)
    proposed = draft.proposals(served.tokens[0], states, 0, 3)
    assert torch.equal(proposed, make(*parts()).proposals(served.tokens[0], normed, 0, 3))


def test_a_norm_of_the_whole_before_fc(parts, served):
    config, tensors, embedding = parts()
    states = served.states((1, 3, 5))[0]
    normed = states / states.pow(2).mean(-1, keepdim=True).add(1e-6).sqrt()
    tensors["input_norm.weight"] = torch.ones(192)
    draft = make(config | {"norm_before_fc": True}, tensors, embedding)
    proposed = draft.proposals(served.tokens[0], states, 0, 3)
    assert torch.equal(proposed, make(*parts()).proposals(served.tokens[0], normed, 0, 3))


def test_rotary_scaling_is_the_configs(parts, served):
    config, tensors, embedding = parts()
    states, text = served.states((1, 3, 5))[0], served.tokens[0]
    halved = make(
        config | {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, tensors, embedding
    )
    slower = make(config | {"rope_theta": 1e6}, tensors, embedding)
    plain = make(config, tensors, embedding).proposals(text, states, 0, 2)
    assert not torch.equal(halved.proposals(text, states, 0, 2), plain)
    assert not torch.equal(slower.proposals(text, states, 0, 2), plain)


def test_states_of_the_drafts_own_width_skip_fc(parts, served):
    config, tensors, embedding = parts()
    fed = served.states((3,))[0]
    with_fc = tensors | {"fc.weight": torch.zeros(64, 192)}
    args = (served.tokens[0], fed, 0, 2)
    assert torch.equal(
        make(config, tensors, embedding).proposals(*args),
        make(config, with_fc, embedding).proposals(*args),
    )


@pytest.mark.parametrize("name", ["lm_head.weight", "fc.weight", "norm.weight"])
def test_a_missing_tensor_is_named(parts, served, name):
    from draftgate_replay.draft import Broken

    config, tensors, embedding = parts()
    del tensors[name]
    with pytest.raises(Broken, match=f"the draft has no {name}, and SGLang serves it with an"):
        make(config, tensors, embedding).proposals(
            served.tokens[0], served.states((1, 3, 5))[0], 0, 1
        )


def test_what_cannot_be_replayed_is_refused(parts, served):
    from draftgate_replay.draft import Unusable

    config, tensors, embedding = parts()
    other = config | {"architectures": ["Eagle3DeepseekV2ForCausalLM"]}
    with pytest.raises(Unusable, match="is Eagle3DeepseekV2ForCausalLM; only LlamaForCausalLME"):
        make(other, tensors, embedding)
    with pytest.raises(Unusable, match="hidden_act 'gelu'; expected silu"):
        make(config | {"hidden_act": "gelu"}, tensors, embedding)
    with pytest.raises(Unusable, match="takes 192-wide states, and is fed 128-wide ones"):
        make(config, tensors, embedding).proposals(served.tokens[0], served.states((1, 3))[0], 0, 1)
