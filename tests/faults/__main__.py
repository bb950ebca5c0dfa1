"""``python -m tests.faults [NAME ...]``: plant the faults, keep what was seen, write the table."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.faults.catalogue import CONTROLS, FAULTS, PAIR
from tests.faults.run import run
from tests.faults.table import judge, never_run, read_results, write_results, write_table


def main(names: list[str]) -> int:
    """0 if each fault was caught by the check that names it and no control raised an alarm."""
    planted = {**FAULTS, **CONTROLS}
    unknown = [name for name in names if name not in planted]
    if unknown:
        sys.stderr.write(f"{unknown[0]}: no such fault; there is {', '.join(planted)}\n")
        return 2
    results = read_results()
    for name in names or planted:
        with tempfile.TemporaryDirectory() as folder:
            seen = {"before": run(planted[name], Path(folder) / "before", preflight=True)}
            if seen["before"].test == PAIR:
                seen["live"] = run(planted[name], Path(folder) / "live", preflight=False)
        results[name] = seen
        write_results(results)
        said = [f"{found.test or 'green'} after {found.seconds} s" for found in seen.values()]
        sys.stdout.write(f"{name}: {', live '.join(said)}\n")
        sys.stdout.flush()
    write_table(results)
    problems = never_run(results) + judge(results)
    sys.stdout.write("\n".join([*problems, f"{len(problems)} problems\n"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
