"""``python -m tests.faults [--pair PAIR] [NAME ...]``: plant faults, keep what was seen, tell."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from draftgate.engine.gpus import visible_gpus
from draftgate.errors import ModelError
from draftgate.models.location import locate

from tests.faults.catalogue import PAIR
from tests.faults.pairs import PAIRS
from tests.faults.run import run
from tests.faults.table import judge, never_run, read_results, write_results, write_table


def main(arguments: list[str]) -> int:
    """0 if each fault was caught by the check that names it and no control raised an alarm."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--pair", choices=PAIRS, default="tiny")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    asked = parser.parse_args(arguments)
    pair = PAIRS[asked.pair]
    if unknown := [name for name in asked.names if name not in pair.planted]:
        parser.error(f"{unknown[0]}: no such fault; there is {', '.join(pair.planted)}")
    try:
        locate(pair.target)
    except ModelError as error:
        parser.error(str(error))
    if pair.device == "gpu" and not visible_gpus():
        parser.error(f"--pair {pair.name}: no NVIDIA GPU is visible here")
    results = read_results(pair)
    for name in asked.names or pair.planted:
        with tempfile.TemporaryDirectory() as folder:
            seen = {"before": run(pair, name, Path(folder) / "before", preflight=True)}
            if seen["before"].test == PAIR:
                seen["live"] = run(pair, name, Path(folder) / "live", preflight=False)
        results[name] = seen
        write_results(pair, results)
        said = [f"{found.test or 'green'} after {found.seconds} s" for found in seen.values()]
        sys.stdout.write(f"{name}: {', live '.join(said)}\n")
        sys.stdout.flush()
    write_table(pair, results)
    problems = never_run(pair, results) + judge(pair, results)
    sys.stdout.write("\n".join([*problems, f"{len(problems)} problems\n"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
