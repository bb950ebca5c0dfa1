"""False alarms and power of the gate and of four usual rules, on the same drawn nights.

`python -m tests.gate.simulation` (part of `tox -e bench`) prints the tables of docs/gate.md.

Speeds are log-normal with three levels of noise: the session's, shared by all servers of a night;
the boot's; the round's. A night is a server that speculates and its reference, `BOOTS` boots of
`ROUNDS` rounds each; a baseline is as many such nights as it has sessions. The gate's decisions are
`draftgate.gate.screen.is_below` and `draftgate.gate.paired.is_slower`, as the judges call them;
`--benchmark-compare-fail` is pytest-benchmark's own check.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from draftgate.gate.paired import PAIRS, is_slower
from draftgate.gate.screen import FULL_SESSIONS, is_below
from pytest_benchmark.utils import PercentageRegressionCheck
from scipy import stats

BOOTS = 3
ROUNDS = 5
FEWER_PAIRS = PAIRS - 2
CHUNK = 5_000
RULES = (
    "gate: screen",
    f"gate: screen, {FEWER_PAIRS} A/B pairs",
    f"gate: screen, {PAIRS} A/B pairs",
    "compare-fail=mean:5%",
    "compare-fail=mean:10%",
    "t-test over rounds",
    "Mann-Whitney over rounds",
)


@dataclass(frozen=True)
class Noise:
    """Standard deviations of one host, in percent."""

    name: str
    session: float
    boot: float
    round: float


NOISES = (
    Noise("quiet", 0.3, 0.4, 0.3),
    Noise("typical", 0.8, 0.8, 0.6),
    Noise("noisy", 2.0, 1.5, 1.5),
)


@dataclass(frozen=True)
class Change:
    """What tonight's software does to the speed: losses of 0.05 are 5 %."""

    name: str
    speculative: float = 0.0
    reference: float = 0.0


CHANGES = (
    Change("nothing"),
    Change("3 %", 0.03),
    Change("5 %", 0.05),
    Change("8 %", 0.08),
    Change("5 % of all", 0.05, 0.05),
)


@dataclass
class Nights:
    """Drawn log speeds, (draws, sessions, boots, rounds); the last session is tonight's."""

    speculative: np.ndarray
    reference: np.ndarray
    pairs: np.ndarray
    """Log ratios of the A/B that confirms, (draws, pairs)."""

    def sessions(self, *, ratio: bool) -> np.ndarray:
        """What each session says: the mean over boots of the median round, as the judges do."""
        values = np.median(self.speculative, axis=-1).mean(axis=-1)
        if ratio:
            values = values - np.median(self.reference, axis=-1).mean(axis=-1)
        return values


def draw(
    rng: np.random.Generator,
    noise: Noise,
    change: Change,
    *,
    draws: int,
    sessions: int = FULL_SESSIONS,
    boots: int = BOOTS,
) -> Nights:
    """Draw `draws` baselines of `sessions` sessions, each with the night that follows it."""
    shape = (draws, sessions + 1, boots, ROUNDS)
    shared = rng.normal(0, noise.session / 100, (*shape[:2], 1, 1))

    def server(loss: float) -> np.ndarray:
        speeds = shared + rng.normal(0, noise.boot / 100, (*shape[:3], 1))
        speeds = speeds + rng.normal(0, noise.round / 100, shape)
        speeds[:, -1] += np.log1p(-loss)
        return speeds

    def arm(loss: float) -> np.ndarray:
        # In an A/B both arms run in one session, each boot with three rounds.
        rounds = rng.normal(0, noise.round / 100, (draws, PAIRS, 3))
        own = rng.normal(0, noise.boot / 100, (draws, PAIRS))
        return np.median(rounds, axis=-1) + own + np.log1p(-loss)

    return Nights(
        server(change.speculative),
        server(change.reference),
        arm(change.speculative) - arm(0.0),
    )


def alarms(nights: Nights) -> dict[str, np.ndarray]:
    """By rule: whether each drawn night is red."""
    screened = np.zeros(len(nights.pairs), dtype=bool)
    for ratio in (False, True):
        values = nights.sessions(ratio=ratio)
        screened |= is_below(values[:, -1], values[:, :-1])
    # pytest-benchmark compares seconds of one boot with those of one stored boot.
    seconds = np.exp(-nights.speculative[:, -2:, 0]).mean(axis=-1)
    slower_by = PercentageRegressionCheck("mean", 0).compute
    percent = np.array([slower_by({"mean": now}, {"mean": before}) for before, now in seconds])
    rounds = nights.speculative.reshape(*nights.speculative.shape[:2], -1)
    last, tonight = rounds[:, -2], rounds[:, -1]
    slower = tonight.mean(axis=-1) < last.mean(axis=-1)
    t_test = stats.ttest_ind(tonight, last, axis=-1).pvalue < 0.05
    ranks = stats.mannwhitneyu(tonight, last, axis=-1, method="asymptotic").pvalue < 0.05
    return dict(
        zip(
            RULES,
            (
                screened,
                screened & is_slower(nights.pairs[:, :FEWER_PAIRS]),
                screened & is_slower(nights.pairs),
                percent > 5,
                percent > 10,
                slower & t_test,
                slower & ranks,
            ),
            strict=True,
        )
    )


def rates(
    noise: Noise, change: Change, *, draws: int, seed: int = 1, **shape: int
) -> dict[str, float]:
    """By rule: the share of red nights."""
    rng = np.random.default_rng(seed)
    red = dict.fromkeys(RULES, 0)
    for size in _chunks(draws):
        for rule, alarm in alarms(draw(rng, noise, change, draws=size, **shape)).items():
            red[rule] += int(alarm.sum())
    return {rule: count / draws for rule, count in red.items()}


def _chunks(draws: int) -> Iterator[int]:
    while draws > 0:
        yield min(draws, CHUNK)
        draws -= CHUNK


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=20_000, help="nights for each figure of power")
    parser.add_argument("--nulls", type=int, default=200_000, help="nights without a change")
    arguments = parser.parse_args()
    say = sys.stdout.write

    def draws(change: Change) -> int:
        return arguments.draws if change.speculative else arguments.nulls

    say(
        f"Share of red nights; baseline of {FULL_SESSIONS} sessions, {BOOTS} boots x {ROUNDS} "
        f"rounds;\n{arguments.nulls} drawn nights without a change, {arguments.draws} with one\n"
    )
    for noise in NOISES:
        say(
            f"\n{noise.name}: session {noise.session} %, boot {noise.boot} %, "
            f"round {noise.round} %\n"
        )
        say(f"{'rule':<26}" + "".join(f"{change.name:>12}" for change in CHANGES) + "\n")
        columns = [rates(noise, change, draws=draws(change)) for change in CHANGES]
        for rule in RULES:
            say(f"{rule:<26}" + "".join(_shown(column[rule]) for column in columns) + "\n")
    say("\ngate: screen, by accepted sessions and boots of each, typical noise\n")
    say(f"{'':<26}" + "".join(f"{change.name:>12}" for change in CHANGES) + "\n")
    for sessions, boots in ((5, 1), (5, 3), (12, 1), (12, 3), (20, 3)):
        shape = {"sessions": sessions, "boots": boots}
        found = [rates(NOISES[1], c, draws=draws(c), **shape)[RULES[0]] for c in CHANGES]
        say(f"{f'{sessions} sessions x {boots}':<26}" + "".join(map(_shown, found)) + "\n")


def _shown(rate: float) -> str:
    return f"{rate:>12.4%}" if rate < 0.01 else f"{rate:>12.1%}"


if __name__ == "__main__":
    main()
