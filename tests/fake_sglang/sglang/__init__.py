"""What `python -m sglang.launch_server` finds in the place of SGLang. Standard library only.

One process answers HTTP, a child that calls itself ``sglang::scheduler`` makes the tokens. Replies
have the shape of those that a real server of the same version gave (``../recorded``). Chosen by the
server's environment:

- ``FAKE_SGLANG_VERSION``: the version to pose as, one of ``../recorded``.
- ``FAKE_SGLANG_STEP_S``: seconds of a forward pass (default 0.0002).
- ``FAKE_SGLANG_FAULT``: one of :mod:`.faults`, as ``name`` or ``name@N``: only after N generations.
"""
