"""The lifecycle against real SGLang on this machine's CPU; random weights are enough for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from draftgate.catalog.spec import Draft, Prompts, ServerSpec, Speculation, Target, Throughput
from draftgate.engine.boot import launch
from draftgate.engine.interpreter import Interpreter, inspect_interpreter
from draftgate.engine.plan import plan_launch
from draftgate.engine.ports import is_free
from draftgate.engine.process import marked_processes
from draftgate.engine.server import RunningServer
from draftgate.errors import BootError, ServerDied, ServerExited
from draftgate.preflight.options import options_of, release_for

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
EAGLE3: dict[str, Any] = {
    **LLAMA,
    "architectures": ["LlamaForCausalLMEagle3"],
    "num_hidden_layers": 1,
    "draft_vocab_size": 32,
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 5], "use_aux_hidden_state": True},
}


@pytest.fixture(scope="module")
def interpreter() -> Interpreter:
    return inspect_interpreter(Path(sys.executable))


@pytest.fixture
def models(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    """Folders of a target and a draft without weights (``load_format`` dummy)."""

    def make(**draft: Any) -> tuple[Path, Path]:
        folders = tmp_path / "target", tmp_path / "draft"
        for folder, config in zip(folders, (LLAMA, {**EAGLE3, **draft}), strict=True):
            folder.mkdir()
            (folder / "config.json").write_text(json.dumps(config))
        return folders

    return make


def spec_of(target: Path, draft: Path, *args: str) -> ServerSpec:
    return ServerSpec(
        id="random/eagle3-s3k1d4/cpu",
        profile="random",
        source=Path("random.toml"),
        device="cpu",
        target=Target(str(target), load_format="dummy"),
        speculation=Speculation(
            Draft("eagle3", str(draft), load_format="dummy"), "EAGLE3", 3, 1, 4
        ),
        cuda_graphs=False,
        graph_max_batch=None,
        tp=1,
        dp=1,
        nnodes=1,
        context_length=1024,
        attention_backend=None,
        max_running_requests=4,
        mem_fraction_static=None,
        skip_tokenizer=True,
        args=args,
        env=(),
        acceptance_floor=None,
        acceptance_ceiling=None,
        boot_timeout_s=300.0,
        host="127.0.0.1",
        prompts=Prompts("builtin:tiny", 1, 16),
        throughput=Throughput(1, 16, 1, 1, False),
        reference_id=None,
    )


def boot_on_cpu(
    models: Callable[..., tuple[Path, Path]],
    interpreter: Interpreter,
    tmp_path: Path,
    **draft: Any,
) -> RunningServer:
    target_folder, draft_folder = models(**draft)
    return launch(
        plan_launch(
            spec_of(target_folder, draft_folder),
            interpreter=interpreter,
            target_path=str(target_folder),
            draft_path=str(draft_folder),
            artifacts=tmp_path / "artifacts",
        )
    )


def test_a_real_server_says_what_it_was_started_with_and_its_death_is_noticed(
    models: Callable[..., tuple[Path, Path]], interpreter: Interpreter, tmp_path: Path
) -> None:
    server = boot_on_cpu(models, interpreter, tmp_path)
    try:
        assert server.info["served_model_name"] == server.plan.served_model_name
        assert server.info["version"] == str(interpreter.sglang_version)
        assert server.info["speculative_algorithm"] == "EAGLE3"
        assert server.info["speculative_num_steps"] == 3
        assert server.info["speculative_eagle_topk"] == 1
        assert server.info["speculative_num_draft_tokens"] == 4
        assert server.info["attention_backend"] == "intel_amx"
        assert server.info["context_length"] == 1024
        assert server.info["enable_return_hidden_states"] is True
        assert list(server.log.durations_s()) == ["imports", "weights", "kv cache", "warm-up"]
        assert sum(server.log.durations_s().values()) == pytest.approx(server.boot_s, abs=0.5)
        with urllib.request.urlopen(f"{server.base_url}/health", timeout=5) as answer:
            assert answer.status == 200
        server.check_alive()
        workers = {
            process.pid: process.cmdline()[0]
            for process in psutil.Process(server.process.pid).children(recursive=True)
            if process.cmdline() and process.cmdline()[0].startswith("sglang::")
        }
        assert sorted(name.strip() for name in workers.values()) == [
            "sglang::detokenizer",
            "sglang::scheduler",
        ]
        wait_until_watched(server, workers)
        [scheduler] = [pid for pid, name in workers.items() if "scheduler" in name]
        os.kill(scheduler, signal.SIGKILL)
        killed = time.monotonic()
        with pytest.raises(ServerDied, match=f"sglang::scheduler.*pid {scheduler}"):
            check_until_dead(server)
        assert time.monotonic() - killed < 0.5
    finally:
        server.stop()
    assert marked_processes(server.plan.served_model_name) == []
    assert is_free(int(server.info["port"]))


def wait_until_watched(server: RunningServer, workers: dict[int, str]) -> None:
    """The supervisor reads the process table at intervals, at least every 2 s."""
    deadline = time.monotonic() + 10
    while not workers.keys() <= server.process.workers.keys():
        assert time.monotonic() < deadline
        server.check_alive()
        time.sleep(0.05)


def check_until_dead(server: RunningServer) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        server.check_alive()
        time.sleep(0.01)


def test_a_crash_at_the_first_forward_names_the_layer_that_disagrees(
    models: Callable[..., tuple[Path, Path]], interpreter: Interpreter, tmp_path: Path
) -> None:
    """Layer ids that collide: two captures where fc wants three."""
    colliding = {"eagle_aux_hidden_state_layer_ids": [5, 3, 5], "use_aux_hidden_state": True}
    with pytest.raises(BootError) as caught:
        boot_on_cpu(models, interpreter, tmp_path, eagle_config=colliding)
    message = str(caught.value)
    assert "RuntimeError: mat1 and mat2 shapes cannot be multiplied" in message
    assert "128 and 192x64" in message
    assert "hint: the captured layers and the draft's fc disagree" in message
    assert "phase reached: warm-up" in message
    assert len(message.splitlines()) <= 15
    assert not psutil.Process().children(recursive=True)


def test_a_value_the_parser_refuses_is_named_with_a_hint(
    models: Callable[..., tuple[Path, Path]], interpreter: Interpreter, tmp_path: Path
) -> None:
    target, draft = models()
    spec = spec_of(target, draft, "--quantization", "no-such-method")
    with pytest.raises(ServerExited) as caught:
        launch(
            plan_launch(
                spec,
                interpreter=interpreter,
                target_path=str(target),
                draft_path=str(draft),
                artifacts=tmp_path / "artifacts",
            )
        )
    message = str(caught.value)
    assert "exit code 2" in message
    assert "error: argument --quantization: invalid choice: 'no-such-method'" in message
    assert "hint: this SGLang does not know an option or its value" in message


PARENT = """
import sys
sys.path[:0] = [{root!r}]
from pathlib import Path
from draftgate.engine.process import ServerProcess
command = [{python!r}, "-m", "sglang.launch_server", "--model-path", {model!r}, "--device", "cpu",
           "--load-format", "dummy", "--skip-tokenizer-init", "--port", "{port}"]
ServerProcess.start(command, {env!r}, Path({log!r}), Path("/"), mark={mark!r}).wait(600)
"""


def test_a_booting_server_does_not_outlive_its_parent(
    models: Callable[..., tuple[Path, Path]], interpreter: Interpreter, tmp_path: Path
) -> None:
    from draftgate.cpu_engine import ENVIRONMENT, SITE
    from draftgate.engine.ports import free_port

    target, _ = models()
    log, mark = tmp_path / "server.log", f"orphan-{tmp_path.name}"
    script = textwrap.dedent(PARENT).format(
        root=str(Path(__file__).parents[2] / "fixtures"),
        python=str(interpreter.python),
        model=str(target),
        port=free_port(),
        env={"PATH": os.environ["PATH"], **ENVIRONMENT, "PYTHONPATH": str(SITE)},
        log=str(log),
        mark=mark,
    )
    with subprocess.Popen([sys.executable, "-c", script]) as parent:
        deadline = time.monotonic() + 240
        while len(marked_processes(mark)) < 3:
            assert time.monotonic() < deadline, log.read_text()
            assert parent.poll() is None
            time.sleep(0.2)
        parent.kill()
        killed = time.monotonic()
    while marked_processes(mark):
        assert time.monotonic() - killed < 5.0
        time.sleep(0.02)


def test_the_option_record_is_what_the_real_parser_accepts(interpreter: Interpreter) -> None:
    release = release_for(interpreter.sglang_version)
    if release is None:
        pytest.fail(f"no options on record for SGLang {interpreter.sglang_version}")
    script = (
        "import argparse; from sglang.srt.server_args import ServerArgs;"
        "parser = argparse.ArgumentParser(add_help=False); ServerArgs.add_cli_args(parser);"
        "print(*(o for a in parser._actions for o in a.option_strings if o.startswith('--')))"
    )
    answer = subprocess.run(
        [str(interpreter.python), "-c", script], capture_output=True, text=True, check=True
    )
    assert set(answer.stdout.splitlines()[-1].split()) == options_of(release)
