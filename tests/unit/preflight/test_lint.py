"""`draftgate lint` as it is run: what it prints, its exit codes, and how little it reads."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from draftgate.catalog.settings import row_of
from draftgate.cli import main
from draftgate.preflight.rules import RULES

from tests.unit.preflight.pairs import KIMI, QWEN3_8B, TOLD, kimi, qwen3

TINY = ["--target", "builtin:tiny", "--draft", "builtin:tiny-eagle3"]
FLAGS = ["--", *TOLD.replace("2048", "1024").split()]


@pytest.fixture(autouse=True)
def _no_sglang_variables(monkeypatch):
    for name in ("SGLANG_SIMULATE_ACC_LEN", "SGLANG_IS_IN_CI", "CUDA_LAUNCH_BLOCKING"):
        monkeypatch.delenv(name, raising=False)


def lint(*words: str) -> int:
    return main(["lint", "--sglang-version", "0.5.23", *words])


class TestOutput:
    def test_a_right_pair(self, capsys):
        assert lint(*TINY, *FLAGS) == 0
        printed = capsys.readouterr().out.splitlines()
        assert printed[-1] == "0 errors, 0 warnings, 0 infos"
        assert "captured_layers [1, 3, 5]" in printed[0]

    def test_a_wrong_one(self, capsys):
        assert lint(*TINY, "--", *TOLD.replace("EAGLE3", "EAGLE").split()) == 1
        printed = capsys.readouterr().out
        assert printed.startswith("error [algorithm] the draft is an EAGLE-3 draft")
        assert "\n  remedy: " in printed

    def test_warnings_alone_exit_0(self, capsys):
        flags = [word.replace("tokens 4", "") for word in FLAGS[:-3]]
        assert lint(*TINY, *flags, "16", "--context-length", "1024") == 0
        assert "warning [draft-numbers] with topk 1 SGLang serves 4" in capsys.readouterr().out

    def test_flags_without_the_dashes_before_them(self, capsys):
        with pytest.raises(SystemExit, match="2"):
            lint(*TINY, "--speculative-algorithm", "EAGLE3")
        said = capsys.readouterr().err
        assert "--speculative-algorithm" in said
        assert "; flags of SGLang stand behind --" in said

    def test_json(self, capsys):
        assert lint("--json", *TINY, "--", *TOLD.replace("EAGLE3", "EAGLE").split()) == 1
        printed = json.loads(capsys.readouterr().out)
        assert set(printed) == {"findings", "resolved"}
        for finding in printed["findings"]:
            assert set(finding) == {"rule", "severity", "message", "evidence", "remedy"}
            assert finding["severity"] in {"error", "warning", "info"}
            assert finding["rule"] in RULES
        assert printed["resolved"] == {
            "sglang_version": "0.5.23",
            "algorithm": "EAGLE",
            "num_steps": 3,
            "topk": 1,
            "num_draft_tokens": 4,
            "target_architecture": "LlamaForCausalLM",
            "draft_architecture": "LlamaForCausalLMEagle3",
            "expected_fc_in": 192,
            "captured_layers": None,
            "trained_on_layers": [1, 3, 5],
        }

    def test_a_chain_resolves_to_one_token_more_than_steps(self, capsys):
        lint("--json", *TINY, "--", *TOLD.replace("tokens 4", "tokens 9").split())
        assert json.loads(capsys.readouterr().out)["resolved"]["num_draft_tokens"] == 4

    def test_the_caller_s_environment_counts(self, capsys, monkeypatch):
        monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", "3.0")
        assert lint(*TINY, *FLAGS) == 1
        assert "SGLANG_SIMULATE_ACC_LEN=3.0" in capsys.readouterr().out

    def test_the_models_of_the_command_line_are_those_judged(self, capsys):
        flags = ("--model-path", "builtin:tiny", "--speculative-draft-model", "builtin:tiny-eagle3")
        assert lint(*TINY, *FLAGS, *flags) == 0
        assert lint(*TINY, *FLAGS, "--model-path", "builtin:tiny-eagle3") == 1
        assert "error [other-model] the command line serves builtin:tiny-eagle3, and --target" in (
            capsys.readouterr().out
        )

    def test_a_draft_as_its_own_target(self, capsys):
        assert lint("--target", TINY[3], *TINY[2:], *FLAGS) == 1
        said = capsys.readouterr().out
        assert said.startswith(
            "error [target-class] the target is the draft itself (LlamaForCausalLMEagle3)"
        )
        assert said.endswith("1 error, 0 warnings, 0 infos\n")

    @pytest.mark.parametrize(
        ("told", "by_flags", "by_profile"),
        [
            (
                {"context_length": 4096},
                "remedy: set --context-length 1024 or less",
                "remedy: set context_length = 1024 or less",
            ),
            (
                {"graph_max_batch": 2, "max_running_requests": 4},
                "remedy: set --max-running-requests 2, or",
                "remedy: set max_running_requests = 2, or",
            ),
            (
                {"algorithm": "EAGLE"},
                "remedy: set --speculative-algorithm EAGLE3",
                'remedy: set algorithm = "EAGLE3"',
            ),
        ],
    )
    def test_a_remedy_speaks_as_the_question_did(
        self, tmp_path, capsys, told, by_flags, by_profile
    ):
        asked = {"algorithm": "EAGLE3", "num_steps": 3, "topk": 1, "num_draft_tokens": 4}
        asked |= {"context_length": 1024, **told}
        flags = [
            word for key, value in asked.items() for word in (row_of(key).names[0], str(value))
        ]
        lint(*TINY, "--", *flags)
        said = capsys.readouterr().out
        assert by_flags in said
        assert " = " not in said
        (tmp_path / "mine.toml").write_text(
            '[target]\npath = "builtin:tiny"\n[drafts.mine]\npath = "builtin:tiny-eagle3"\n'
            '[[servers]]\nlabel = "x"\ndraft = "mine"\n'
            + "\n".join(f"{key} = {json.dumps(value)}" for key, value in asked.items())
        )
        lint("--profiles", str(tmp_path), "--profile", "mine/*/graph")
        assert by_profile in capsys.readouterr().out


class TestProfiles:
    def test_a_server_of_a_profile(self, capsys):
        assert lint("--profile", "kimi-k25-shape/eagle3-s3k1d4/graph") == 0
        assert "expected_fc_in 21504" in capsys.readouterr().out

    def test_the_profile_s_environment_and_not_the_caller_s(self, monkeypatch):
        monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", "3.0")
        assert lint("--profile", "tiny/eagle3-s3k1d4/cpu") == 0

    def test_a_profile_of_one_s_own(self, tmp_path, capsys):
        (tmp_path / "mine.toml").write_text(
            '[target]\npath = "builtin:tiny"\n[drafts.mine]\npath = "builtin:tiny-eagle3"\n'
            'trained_on = [2, 4, 6]\n[[servers]]\ndraft = "mine"\nnum_steps = 3\ntopk = 1\n'
            "num_draft_tokens = 4\n"
        )
        words = ("--profiles", str(tmp_path), "--profile", "mine/mine-s3k1d4/graph")
        assert lint(*words) == 1
        printed = capsys.readouterr().out
        assert "[layers-moved]" in printed
        assert "error [tokenizer] the target's folder holds no tokenizer" in printed
        profile = tmp_path / "mine.toml"
        profile.write_text(f"{profile.read_text()}skip_tokenizer = true\n")
        assert lint(*words) == 1
        assert "[tokenizer]" not in capsys.readouterr().out


def broken(folder: Path, damage: str) -> list[str]:
    """Arguments for a Qwen3 pair with one damage to its draft's folder."""
    served = QWEN3_8B.write(folder / "target")
    draft = qwen3().write(folder / "draft", shards=2)
    shard = draft / "model-00002-of-00002.safetensors"
    if damage == "config not JSON":
        (draft / "config.json").write_text("{'hidden_size': 1}")
    elif damage == "no config.json":
        (draft / "config.json").unlink()
    elif damage == "no folder":
        draft = folder / "nowhere"
    elif damage == "truncated header":
        shard.write_bytes(shard.read_bytes()[:100])
    elif damage == "shard absent":
        shard.unlink()
    elif damage == "truncated data":
        with shard.open("r+b") as stream:
            stream.truncate(shard.stat().st_size - 1)
    elif damage == "config of wrong types":
        (draft / "config.json").write_text('{"hidden_size": "4096"}')
    elif damage == "config without sizes":
        (draft / "config.json").write_text('{"architectures": ["LlamaForCausalLMEagle3"]}')
    return ["--target", str(served), "--draft", str(draft)]


class TestUnusableInput:
    @pytest.mark.parametrize(
        ("damage", "words"),
        [
            ("no folder", "no such model folder"),
            ("no config.json", "holds no config.json"),
            ("config not JSON", "config.json: no valid JSON"),
            ("config without sizes", "hidden_size must be a positive integer"),
            ("config of wrong types", "hidden_size must be a positive integer, not '4096'"),
            ("truncated header", "model-00002-of-00002.safetensors"),
            ("truncated data", "truncated"),
            ("shard absent", "missing (model-00002-of-00002.safetensors first)"),
        ],
    )
    def test_a_folder(self, tmp_path, capsys, damage, words):
        assert lint(*broken(tmp_path, damage)) == 2
        assert_one_error(capsys, words)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ([], "give --target and --draft, or --profile"),
            (TINY[:2], "give --target and --draft"),
            ([*TINY, "--profile", "tiny/eagle3-s3k1d4/cpu"], "give either --profile, or --target"),
            (["--profile", "tiny/x", "--", "--tp", "2"], "give either --profile, or --target"),
            (["--profile", "tinny/x"], "unknown profile 'tinny'; did you mean 'tiny'?"),
            (["--profile", "tiny/eagle3-s4k1d5/cpu"], "no server of tiny matches"),
            (["--profile", "tiny"], "name one: tiny/eagle3-s3k1d4/cpu"),
            (["--profile", "tiny/none/cpu"], "does not speculate: there is no pair to judge"),
            (["--target", "org/name", *TINY[2:]], "neither a folder nor in the local hub cache"),
            ([*TINY, "--", "python", "-m", "x"], "expected SGLang flags"),
            ([*TINY, "--", "--speculative-num-steps", "three"], "takes a whole number"),
            ([*TINY, "--", "--speculative-num-steps"], "takes one value, got []"),
            ([*TINY, "--", "--config", "flags.yaml"], "--config holds flags that are not read"),
        ],
    )
    def test_arguments(self, capsys, arguments, words):
        assert lint(*arguments) == 2
        assert_one_error(capsys, words)

    @pytest.mark.parametrize("version", ["0.4.9", "0.6.0", "latest"])
    def test_a_version(self, capsys, version):
        assert main(["lint", "--sglang-version", version, *TINY]) == 2
        assert_one_error(capsys, f"SGLang {version} is not on record: give --sglang-version 0.5.10")


def assert_one_error(capsys: Any, words: str) -> None:
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("draftgate: ")
    assert words in printed.err


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts bytes in /proc/self/io")
def test_a_checkpoint_of_hundreds_of_gigabytes_is_not_read(tmp_path, capsys):
    served = KIMI.write(tmp_path / "target", shards=64)
    draft = kimi().write(tmp_path / "draft")
    files = [*served.glob("*.safetensors"), *draft.glob("*.safetensors")]
    size = sum(file.stat().st_size for file in files)
    assert size > 50e9, "it must look like more than memory holds"
    assert sum(file.stat().st_blocks * 512 for file in files) < 10e6, "and hold next to nothing"

    before, start = bytes_read(), time.perf_counter()
    code = lint("--target", str(served), "--draft", str(draft), *FLAGS)
    took_s, read = time.perf_counter() - start, bytes_read() - before

    assert code == 0
    assert read < 5e6, "headers, index, configs, d2t and t2d"
    with capsys.disabled():
        sys.stdout.write(
            f"\nlint of {size / 1e9:.0f} GB: read {read / 1e6:.2f} MB, {took_s:.3f} s\n"
        )


def bytes_read() -> int:
    """Bytes this process has read so far, from files of any kind."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar:")).split()[1])
