from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from draftgate.catalog.spec import Draft, ServerSpec, Speculation, Target
from draftgate.cpu_engine import device_needs
from draftgate.engine.command import build_command, check_arguments
from draftgate.engine.interpreter import Interpreter
from draftgate.errors import CommandError
from draftgate.preflight.options import known_releases, options_of
from packaging.version import Version

from tests.specs import value_after

MakeSpec = Callable[..., ServerSpec]
MakeInterpreter = Callable[[str], Interpreter]
DRAFT = Draft("eagle3", "/m/draft", "v1", None, "dummy")
EAGLE3 = Speculation(DRAFT, "EAGLE3", 5, 1, 6)
TREE = Speculation(DRAFT, "EAGLE3", 3, 4, 8)


def command_for(spec: ServerSpec, interpreter: Interpreter, **changes: Any) -> list[str]:
    values: dict[str, Any] = {
        "target_path": "/m/target",
        "draft_path": "/m/draft" if spec.speculation else None,
        "port": 30123,
        "served_model_name": "draftgate-7f3a9c",
    }
    return build_command(spec, interpreter=interpreter, **{**values, **changes})


def shipped_kinds(make_spec: MakeSpec) -> Iterator[ServerSpec]:
    """Speculation none, chain and tree; graphs on and off; every optional key set and unset."""
    for speculation, graphs, is_full in product((None, EAGLE3, TREE), (True, False), (True, False)):
        full: dict[str, Any] = {
            "target": Target("/m/target", "main", True, "dummy"),
            "graph_max_batch": 8,
            "tp": 8,
            "dp": 2,
            "context_length": 4096,
            "attention_backend": "triton",
            "max_running_requests": 8,
            "mem_fraction_static": 0.85,
            "skip_tokenizer": True,
            "args": ("--sampling-backend", "pytorch", "--grammar-backend", "none"),
        }
        changes = full if is_full else {}
        yield make_spec(speculation=speculation, cuda_graphs=graphs, **changes)


@pytest.mark.parametrize("version", [str(release) for release in known_releases()])
def test_every_option_exists_verbatim_in_that_release(
    make_spec: MakeSpec, make_interpreter: MakeInterpreter, version: str
) -> None:
    accepted = options_of(Version(version))
    count = 0
    for spec in shipped_kinds(make_spec):
        names = [
            word for word in command_for(spec, make_interpreter(version)) if word.startswith("--")
        ]
        assert set(names) <= accepted
        assert len(names) == len(set(names)), "an option given twice"
        count += 1
    assert count == 12


def test_the_whole_line_for_0_5_23(make_spec: MakeSpec, make_interpreter: MakeInterpreter) -> None:
    spec = make_spec(
        speculation=EAGLE3,
        graph_max_batch=8,
        attention_backend="triton",
        mem_fraction_static=0.3,
        args=("--sampling-backend", "pytorch"),
    )
    assert command_for(spec, make_interpreter("0.5.23"), extra=("--forward-hooks", "[]")) == [
        *("/opt/sg/bin/python", "-m", "sglang.launch_server"),
        *("--model-path", "/m/target", "--load-format", "auto"),
        *("--speculative-draft-model-path", "/m/draft"),
        *("--speculative-draft-model-revision", "v1"),
        *("--speculative-draft-load-format", "dummy", "--speculative-num-steps", "5"),
        *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "6"),
        *("--speculative-algorithm", "EAGLE3", "--cuda-graph-max-bs-decode", "8"),
        *("--tensor-parallel-size", "1", "--data-parallel-size", "1", "--nnodes", "1"),
        *("--attention-backend", "triton", "--mem-fraction-static", "0.3"),
        *("--host", "127.0.0.1"),
        *("--served-model-name", "draftgate-7f3a9c", "--port", "30123"),
        "--enable-return-hidden-states",
        *("--cuda-graph-backend-prefill", "disabled"),
        *("--random-seed", "20240501", "--log-level", "info", "--decode-log-interval", "10"),
        *("--forward-hooks", "[]", "--sampling-backend", "pytorch"),
    ]


@pytest.mark.parametrize(
    ("version", "graphs", "expected"),
    [
        ("0.5.10", True, ["--cuda-graph-max-bs", "--disable-piecewise-cuda-graph"]),
        ("0.5.10", False, ["--disable-cuda-graph", "--disable-piecewise-cuda-graph"]),
        ("0.5.13", True, ["--cuda-graph-max-bs", "--disable-piecewise-cuda-graph"]),
        ("0.5.13.post1", False, ["--disable-cuda-graph", "--disable-piecewise-cuda-graph"]),
        ("0.5.14", True, ["--cuda-graph-backend-prefill", "--cuda-graph-max-bs-decode"]),
        ("0.5.18", False, ["--cuda-graph-backend-decode", "--cuda-graph-backend-prefill"]),
        ("0.5.23", True, ["--cuda-graph-backend-prefill", "--cuda-graph-max-bs-decode"]),
        ("0.5.23", False, ["--cuda-graph-backend-decode", "--cuda-graph-backend-prefill"]),
        ("0.6.1", False, ["--cuda-graph-backend-decode", "--cuda-graph-backend-prefill"]),
    ],
)
def test_graph_options_follow_the_release(
    make_spec: MakeSpec,
    make_interpreter: MakeInterpreter,
    version: str,
    graphs: bool,
    expected: list[str],
) -> None:
    spec = make_spec(cuda_graphs=graphs, graph_max_batch=8)
    words = command_for(spec, make_interpreter(version))
    assert sorted(word for word in words if "graph" in word) == expected


def test_a_prefill_graph_is_kept_off_unless_the_arguments_ask_for_it(
    make_spec: MakeSpec, make_interpreter: MakeInterpreter
) -> None:
    asked = make_spec(args=("--cuda-graph-backend-prefill", "breakable"))
    words = command_for(asked, make_interpreter("0.5.23"))
    assert words.count("--cuda-graph-backend-prefill") == 1
    assert value_after(words, "--cuda-graph-backend-prefill") == "breakable"
    enforced = make_spec(args=("--enforce-piecewise-cuda-graph",))
    words = command_for(enforced, make_interpreter("0.5.13"))
    assert "--disable-piecewise-cuda-graph" not in words


def test_a_server_without_speculation_gets_no_speculative_option(
    make_spec: MakeSpec, make_interpreter: MakeInterpreter
) -> None:
    words = command_for(make_spec(speculation=None), make_interpreter("0.5.23"))
    assert not [word for word in words if "speculative" in word or "hidden-states" in word]


def test_random_weights_are_dummies_to_sglang(
    make_spec: MakeSpec, make_interpreter: MakeInterpreter
) -> None:
    draft = dataclasses.replace(DRAFT, load_format="random")
    spec = make_spec(
        target=Target("/m/target", load_format="random"),
        speculation=dataclasses.replace(EAGLE3, draft=draft),
    )
    words = command_for(spec, make_interpreter("0.5.23"))
    assert value_after(words, "--load-format") == "dummy"
    assert value_after(words, "--speculative-draft-load-format") == "dummy"
    auto = make_spec(speculation=dataclasses.replace(EAGLE3, draft=Draft("eagle3", "/m/draft")))
    words = command_for(auto, make_interpreter("0.5.23"))
    assert value_after(words, "--load-format") == "auto"
    assert "--speculative-draft-load-format" not in words


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("--piecewise-cuda-graph-tokens", "1"),
            "no option --piecewise-cuda-graph-tokens .*Nothing looks like it",
        ),
        (("--num-continous-decode-steps", "2"), "nearest is --num-continuous-decode-steps"),
    ],
)
def test_arguments_that_cannot_be_right_are_refused(
    make_spec: MakeSpec, args: tuple[str, ...], message: str
) -> None:
    with pytest.raises(CommandError, match=message) as caught:
        check_arguments(make_spec(args=args), Version("0.5.23"))
    assert "tiny/eagle3-s3k1d4/graph" in str(caught.value)
    assert str(Path("profiles/tiny.toml")) in str(caught.value)


def test_options_are_not_checked_for_releases_without_a_record(make_spec: MakeSpec) -> None:
    check_arguments(make_spec(args=("--brand-new",)), Version("0.6.0"))


def test_nodes_need_an_address(make_spec: MakeSpec) -> None:
    with pytest.raises(CommandError, match="2 nodes need --dist-init-addr"):
        check_arguments(make_spec(nnodes=2), Version("0.5.23"))
    check_arguments(make_spec(nnodes=2, args=("--dist-init-addr=h:1",)), Version("0.5.23"))


def test_the_cpu_engine_adds_its_flags_but_no_graph_option(
    make_spec: MakeSpec, make_interpreter: MakeInterpreter
) -> None:
    spec = make_spec(device="cpu", args=("--max-total-tokens", "4096"))
    needs = device_needs(spec, Version("0.5.23"))
    words = command_for(spec, make_interpreter("0.5.23"), extra=needs.args)
    assert value_after(words, "--device") == "cpu"
    assert value_after(words, "--attention-backend") == "intel_amx"
    assert words.count("--max-total-tokens") == 1
    assert value_after(words, "--max-total-tokens") == "4096"
    assert not [word for word in words if "graph" in word]
    assert needs.env["SGLANG_USE_CPU_ENGINE"] == "1"
    assert "PYTHONPATH" not in needs.env
    own = dataclasses.replace(spec, attention_backend="torch_native")
    assert "--attention-backend" not in device_needs(own, Version("0.5.23")).args


def test_the_cpu_engine_refuses_a_version_it_was_not_verified_with(make_spec: MakeSpec) -> None:
    with pytest.raises(CommandError, match=r"serves SGLang 0\.5\.23, and .* holds 0\.5\.18"):
        device_needs(make_spec(device="cpu"), Version("0.5.18"))
    assert device_needs(make_spec(), Version("0.5.18")).args == ()
