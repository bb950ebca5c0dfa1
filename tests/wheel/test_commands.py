"""The command `draftgate`, in a repository that is not the checkout."""

from __future__ import annotations

from tests.wheel.conftest import NONE, SPEC


def test_help_and_list(repository):
    assert "usage: draftgate" in repository.draftgate("--help").out
    listed = repository.draftgate("list", "--profiles", "mine.toml")
    assert listed.code == 0, listed.text
    assert NONE in listed.out
    assert SPEC in listed.out


def test_lint_passes_a_sound_pair_and_names_what_is_wrong_with_another(repository):
    options = ("lint", "--target", "builtin:tiny", "--draft", "builtin:tiny-eagle3", "--")
    sound = repository.draftgate(*options, "--speculative-algorithm", "EAGLE3")
    assert sound.code == 0, sound.text
    wrong = repository.draftgate(*options, "--speculative-algorithm", "EAGLE")
    assert wrong.code == 1, wrong.text
    assert "EAGLE3" in wrong.out
