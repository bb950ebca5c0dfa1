"""The fault table: every known fault planted into a real CPU server, and what catches it.

`catalogue` lists the faults and the healthy controls, `pairs` on which pair each is planted,
`plugin/` alters a live server, `run` runs the suite on one of them as a user does, `replayed` has
the draft replayed alone, too, `table` renders what was found. `python -m tests.faults` runs them
all on the built-in pair (about half an hour), `--pair smollm2` on a natural model, keeps what was
seen and rewrites the table in docs/faults.md.
"""
