"""What can happen to a server, and to pytest, and that nothing is left of it.

`server_faults` and `deaths` are the cases, `page` writes docs/reliability.md from them, `soak`
boots and ends the stand-in many times.
"""
