"""The fault table: every known fault planted into a real CPU server, and what catches it.

`catalogue` lists the faults and the healthy controls, `plugin/` alters a live server, `run` runs
the suite on one of them as a user does, `table` renders what was found. `python -m tests.faults`
runs them all (about half an hour), keeps `results.json` and rewrites the table in docs/faults.md.
"""
