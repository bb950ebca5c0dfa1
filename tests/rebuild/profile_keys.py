"""Write the tables of keys in docs/profiles.md, from the rows of `draftgate.catalog.settings`.

``python -m tests.rebuild.profile_keys``, with fixtures/ on PYTHONPATH. The text between the two
marker comments of that page is what `tables` returns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from draftgate.catalog.setting import HOMES, REQUIRED, Setting
from draftgate.catalog.settings import rows_of

PAGE = Path(__file__).parents[2] / "docs" / "profiles.md"
BEGIN = "<!-- made by python -m tests.rebuild.profile_keys -->"
END = "<!-- end of what is made -->"


def tables() -> str:
    """The Markdown of all tables of keys."""
    return "\n".join(line for table in HOMES for line in _table(table))


def _table(table: str) -> Iterator[str]:
    rows = [row for row in rows_of(table) if row.table == table]
    shared = any(row.also for row in rows)
    yield f"### `{HOMES[table]}`\n" if table else "### Top level\n"
    yield f"| key | type | default |{' also in |' if shared else ''} meaning |"
    yield f"|---|---|---|{'---|' if shared else ''}---|"
    for row in rows:
        also = f" {', '.join(f'`{name}`' for name in row.also)} |" if shared else ""
        yield f"| `{row.key}` | {row.kind.shown} | {_default(row)} |{also} {row.meaning} |"
    yield ""


def _default(row: Setting) -> str:
    value: Any = row.default
    if value is REQUIRED:
        return "required"
    if row.kind.holds and not row.table:
        given = [held.default for held in rows_of(row.kind.holds)]
        return "none" if None in given or REQUIRED in given else "see below"
    if value is None or row.kind.holds:
        return "none"
    if isinstance(value, tuple) and value:
        (value,) = value
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{json.dumps(value)}`"


def with_tables(page: str) -> str:
    """The text of the page with the tables as they are now."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{tables()}\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
