"""What trains both drafts: vocabulary, loss, and the whole of SmolLM2's on a small model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from draftgate.models.checkpoint import read_checkpoint

from tests.unit.models import small_gguf

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.rebuild.training import build_smollm2, chat_texts, eagle3  # noqa: E402
from tests.rebuild.training.language_model import LanguageModel, Text  # noqa: E402
from tests.rebuild.training.network import Draft, Shape, initialize  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_gguf.converted(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def model(folder: Path) -> LanguageModel:
    return LanguageModel(folder, "cpu")


def test_a_vocabulary_holds_the_most_frequent_tokens() -> None:
    tokens = torch.tensor([[7, 7, 7, 2], [2, 5, 5, 9]])
    vocabulary = eagle3.DraftVocabulary.most_frequent(tokens, 3, 10)
    assert vocabulary.target_ids.tolist() == [2, 5, 7]
    assert vocabulary.d2t().tolist() == [2, 4, 5]
    assert vocabulary.t2d().nonzero().flatten().tolist() == [2, 5, 7]
    assert vocabulary.labels(torch.tensor([5, 9, 7])).tolist() == [1, eagle3.NO_LABEL, 2]


def small_draft() -> Draft:
    shape = Shape(10, 16, 32, 1, 2, 1, 8, 1e-5, 1e4)
    draft = Draft(shape, draft_vocab_size=4, num_aux=3)
    initialize(draft, torch.Generator().manual_seed(0))
    return draft


@pytest.mark.parametrize("soft", [False, True], ids=["ids", "probabilities"])
def test_a_draft_learns_one_batch(soft: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    aux = torch.randn(2, 6, 48, generator=generator)
    embeddings = torch.randn(2, 10, 16, generator=generator)
    labels = torch.randint(4, (2, 12), generator=generator)
    if soft:
        labels = torch.nn.functional.one_hot(labels, 4).float()
    trainer = eagle3.Trainer(small_draft())
    batch = eagle3.Batch(aux, embeddings, labels)
    first = trainer.step(batch, 0.01)
    for _ in range(80):
        last = trainer.step(batch, 0.01)
    assert first.shape == (5,)
    assert last.max() < 0.1 < 1.0 < first.min()


def test_probabilities_of_one_are_the_ids_they_stand_for() -> None:
    generator = torch.Generator().manual_seed(1)
    aux = torch.randn(2, 6, 48, generator=generator)
    embeddings = torch.randn(2, 10, 16, generator=generator)
    ids = torch.randint(4, (2, 12), generator=generator)
    soft = torch.nn.functional.one_hot(ids, 4).float()
    by_id = eagle3.Trainer(small_draft()).step(eagle3.Batch(aux, embeddings, ids), 0.0)
    by_probability = eagle3.Trainer(small_draft()).step(eagle3.Batch(aux, embeddings, soft), 0.0)
    assert torch.allclose(by_id, by_probability)


def test_new_tokens_follow_each_prompt() -> None:
    text = Text(torch.arange(14).reshape(2, 7), torch.tensor([2, 4]), new_tokens=3)
    assert text.tokens[text.is_new()].tolist() == [2, 3, 4, 11, 12, 13]
    assert [len(part.tokens) for part in text.split(1)] == [1, 1]


def test_rows_of_any_length_are_continued_as_if_alone(model: LanguageModel) -> None:
    prompts = [[1, 50, 60, 70, 80], [1, 90], [1, 40, 41]]
    together = model.continued(prompts, 6)
    assert together.prompt_lengths.tolist() == [5, 2, 3]
    for row, prompt in enumerate(prompts):
        tokens = torch.tensor([prompt])
        for _ in range(6):
            logits, _ = model(tokens)
            tokens = torch.cat([tokens, logits[:, -1].argmax(-1, keepdim=True)], dim=1)
        assert together.tokens[row, : len(prompt) + 6].tolist() == tokens[0].tolist()


def test_hidden_states_are_those_before_and_behind_each_layer(model: LanguageModel) -> None:
    tokens = torch.tensor([[1, 50, 60]])
    logits, states = model(tokens)
    assert len(states) == 2
    assert torch.equal(states[0].float(), model.embed(tokens))
    assert torch.allclose(states[-1] @ model.head.T, logits)


def test_fewer_rows_than_validation_takes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["build", str(tmp_path / "draft"), "--target", str(tmp_path), "--rows", "16"]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit):
        build_smollm2.main()
    assert "--rows 16: expected more than 16" in capsys.readouterr().err


def test_the_whole_of_it_leaves_a_draft_that_the_suite_can_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_smollm2, "LAYER_IDS", (-1, -1, 0))  # it has one layer
    monkeypatch.setattr(build_smollm2, "DRAFT_VOCAB_SIZE", 40)
    monkeypatch.setattr(build_smollm2, "DRAFT_INTERMEDIATE_SIZE", 32)
    monkeypatch.setattr(chat_texts, "PROMPTS", 24)
    out = tmp_path / "draft"
    arguments = ["build", str(out), "--target", str(folder), "--minutes", "0.1", "--rows", "24"]
    arguments += ["--new-tokens", "12", "--batch-tokens", "800", "--held-out", "8"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert build_smollm2.main() == 0
    draft = read_checkpoint(out)
    assert draft.trained_on == (-1, -1, 0)
    assert draft.config["draft_vocab_size"] == len(draft.read_integers("d2t")) == 40
    assert draft.config["tie_word_embeddings"] is False
    assert {t.dtype for t in draft.tensors.values()} == {
        "BF16",
        "I64",
        "BOOL",
    }
    record = json.loads((out / "training.json").read_text())
    assert record["trained_on_layers"] == [-1, -1, 0]
    assert set(record["data"]["texts"]) == {
        "answers to composed prompts",
        "answers to prompts of its own",
    }
    assert 0.0 < record["held_out"]["in_draft_vocabulary"] <= 1.0
    assert len(record["validation"]["accuracy"]) == 5
    assert len(record["held_out"]["by_category"]) == 8
    assert 1.0 <= record["held_out"]["acceptance_length"] <= 4.0
