from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from draftgate.engine.root_exception import RootException, find_root_exception

SCHEDULER = """
[2026-11-29 15:52:08] post-warmup freeze_gc failed
Traceback (most recent call last):
  File "/lib/urllib3/connection.py", line 239, in _new_conn
    sock = connection.create_connection(
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ConnectionRefusedError: [Errno 111] Connection refused

[2026-11-29 15:52:09] Scheduler hit an exception: Traceback (most recent call last):
  File "/srv/sglang/srt/managers/scheduler.py", line 6300, in run_scheduler_process
    scheduler.event_loop()
  File "/srv/sglang/srt/models/llama_eagle3.py", line 218, in forward
    hidden_states = self.fc(hidden_states)
RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x128 and 192x64)

[2026-11-29 15:52:09] Received sigquit from a child process. It usually means the child failed.
Traceback (most recent call last):
  File "/srv/sglang/launch_server.py", line 90, in <module>
    run_server(server_args)
EOFError
"""
CHAIN = """
Traceback (most recent call last):
  File "/srv/a.py", line 3, in load
    raise KeyError("lm_head")
KeyError: 'lm_head'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/b.py", line 9, in main
    load()
RuntimeError: Rank 0 scheduler died
"""
SYNTAX = """
Traceback (most recent call last):
  File "/srv/loader.py", line 3, in load
    import broken
  File "/srv/models/broken.py", line 2
    def f(:
          ^
SyntaxError: invalid syntax
"""
ARGPARSE = """
usage: launch_server.py [-h] --model-path MODEL_PATH
launch_server.py: error: unrecognized arguments: --cuda-graph-max-bs 8
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            SCHEDULER,
            RootException(
                "RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x128 and 192x64)",
                "/srv/sglang/srt/models/llama_eagle3.py:218 in forward",
            ),
        ),
        (
            CHAIN,
            RootException(
                "KeyError: 'lm_head'", "/srv/a.py:3 in load", "RuntimeError: Rank 0 scheduler died"
            ),
        ),
        (
            SYNTAX,
            RootException("SyntaxError: invalid syntax", "/srv/models/broken.py:2: def f(:"),
        ),
        (
            ARGPARSE,
            RootException("launch_server.py: error: unrecognized arguments: --cuda-graph-max-bs 8"),
        ),
        (
            "OSError: libnuma.so.1: cannot open shared object file\nbye\n",
            RootException("OSError: libnuma.so.1: cannot open shared object file"),
        ),
        ("one\nlast words\n\n", RootException("last words")),
        (
            'Traceback (most recent call last):\n  File "/x.py", line 1, in f\n    g()\n',
            RootException("an exception whose text is missing in the log", "/x.py:1 in f"),
        ),
    ],
)
def test_the_exception_that_started_it(tmp_path: Path, text: str, expected: RootException) -> None:
    path = tmp_path / "server.log"
    path.write_text(dedent(text))
    assert find_root_exception(path) == expected


def test_the_first_of_two_failing_ranks(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    block = (
        "[ts TP{rank}] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/srv/s.py", line {rank}, in run\n    go()\nValueError: rank {rank}\n\n'
    )
    path.write_text("".join(block.format(rank=rank) for rank in (3, 0)))
    found = find_root_exception(path)
    assert found == RootException("ValueError: rank 3", "/srv/s.py:3 in run")
    assert str(found) == "ValueError: rank 3 (/srv/s.py:3 in run)"


def test_nothing_to_find(tmp_path: Path) -> None:
    assert find_root_exception(tmp_path / "absent.log") is None
    (tmp_path / "empty.log").write_text("")
    assert find_root_exception(tmp_path / "empty.log") is None


def test_junk_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(bytes(range(256)) * 5000 + b"\n" + SYNTAX.encode())
    found = find_root_exception(path)
    assert found is not None
    assert found.text == "SyntaxError: invalid syntax"
