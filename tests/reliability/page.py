"""Write docs/reliability.md anew, from the faults and deaths that the tests run.

::

    python -m tests.reliability.page
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fake_sglang.interpreter import make_interpreter
from tests.reliability.deaths import DEATHS, Death, Remains, die
from tests.reliability.server_faults import CASES, Case, Ending, run_case

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
WORDS = """\
# What goes wrong, and what comes of it

Each row is a fault that is injected into a server, or a death of pytest, and what came of it. The
servers are the stand-in of `tests/fake_sglang`: a program with SGLang's HTTP interface, log and
process tree, whose replies are held against recorded ones, launched through the same code as a real
server. `python -m tests.reliability.page` wrote this page: one fault after the other, on
{system} with {cores} cores. `tests/unit/engine/test_server_faults.py` and
`tests/plugin/test_deaths.py` run the same.

## Faults of a server

*Time to notice* runs from the fault to the error in the caller's hands, everything of the server
ended by then. Where the fault is silence, it is the limit that the row names. A fault without an
error is one that a server may have.

{faults}

## Deaths of pytest

*Gone after* runs from the signal, or from pytest's own end, until no process and no port of the
server is left. After a death in which nothing could be cleaned up, the next run says whose lease it
takes over. `tests/engine/test_deaths.py` does three of these to a real server on the CPU.

{deaths}

## Many times

`python -m tests.reliability.soak 200` boots and ends the stand-in 200 times and counts descriptors,
threads, processes and ports before and after; it exits with 1 unless there are as many.
"""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fault_row(case: Case, ending: Ending) -> tuple[str, ...]:
    error = type(ending.error).__name__ if ending.error else "none: it is served"
    notice = "" if ending.notice_s is None else f"{ending.notice_s:.1f} s"
    return case.name, error, notice, str(len(ending.processes)), str(len(ending.ports))


def death_row(death: Death, left: Remains) -> tuple[str, ...]:
    return death.name, f"{left.gone_s:.1f} s", str(len(left.processes)), str(len(left.ports))


def rows_of(page: str, head: str) -> list[tuple[str, ...]]:
    """The rows of the table whose first column is called `head`."""
    _, _, rest = page.partition(f"| {head} |")
    body = rest.partition("\n\n")[0].splitlines()[2:]
    return [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in body]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        python = make_interpreter(Path(folder) / "fake_sglang")
        faults = []
        for number, case in enumerate(CASES):
            place = Path(folder) / f"fault-{number}"
            place.mkdir()
            faults.append(fault_row(case, run_case(case, place, python)))
            sys.stdout.write(" | ".join(faults[-1]) + "\n")
        deaths = []
        for number, death in enumerate(DEATHS):
            place = Path(folder) / f"death-{number}"
            server = ("--dg-server-python", str(python), "--dg-server", "tiny/none/cpu")
            deaths.append(death_row(death, die(death, place, server)))
            sys.stdout.write(" | ".join(deaths[-1]) + "\n")
    PAGE.write_text(
        WORDS.format(
            system=platform.system(),
            cores=os.cpu_count(),
            faults=table(
                ("fault", "error", "time to notice", "processes left", "ports left"), faults
            ),
            deaths=table(("death", "gone after", "processes left", "ports left"), deaths),
        )
    )


if __name__ == "__main__":
    main()
