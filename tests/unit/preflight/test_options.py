from __future__ import annotations

import pytest
from draftgate.preflight.options import known_releases, nearest, options_of, release_for
from packaging.version import Version


def test_the_record_spans_the_supported_releases() -> None:
    assert [str(release) for release in known_releases()] == [
        f"0.5.{number}" for number in range(10, 24)
    ]


@pytest.mark.parametrize(
    ("option", "first", "last"),
    [
        ("--cuda-graph-max-bs", 10, 19),
        ("--cuda-graph-max-bs-decode", 14, 23),
        ("--cuda-graph-backend-decode", 14, 23),
        ("--disable-piecewise-cuda-graph", 10, 19),
        ("--enable-piecewise-cuda-graph", 10, 13),
        ("--disable-cuda-graph", 10, 23),
        ("--forward-hooks", 10, 23),
    ],
)
def test_renamed_options_have_the_life_they_had(option: str, first: int, last: int) -> None:
    having = [release.micro for release in known_releases() if option in options_of(release)]
    assert having == list(range(first, last + 1))


def test_a_post_release_has_the_options_of_its_base() -> None:
    assert release_for(Version("0.5.10.post2")) == Version("0.5.10")
    assert release_for(Version("0.7.0")) is None
    assert release_for(Version("0.5.9")) is None


def test_the_nearest_option_prefers_a_longer_name() -> None:
    release = Version("0.5.23")
    assert nearest("--cuda-graph-max-bs", release) == "--cuda-graph-max-bs-decode"
    assert nearest("--speculative-num-step", release) == "--speculative-num-steps"
    assert nearest("--zzzzzz", release) is None
