"""Every wrong key and value of a profile, with the message it gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from draftgate.catalog.load import load_profile
from draftgate.errors import ProfileError

from .conftest import CHAIN, HEAD, Refusal

NONE = "[[servers]]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            HEAD + CHAIN + "num_step = 3",
            "servers[0].num_step: unknown key; did you mean 'num_steps'?",
        ),
        (HEAD + NONE + CHAIN + "Tp = 3", "servers[1].Tp: unknown key; did you mean 'tp'?"),
        (
            HEAD + CHAIN + "speculative_eagle_topk = 3",
            "servers[0].speculative_eagle_topk: unknown key; use topk",
        ),
        (
            HEAD + CHAIN + 'model-path = "x"',
            "servers[0].model-path: unknown key; use [target] path",
        ),
        (
            HEAD + CHAIN + "trained_on = [1]",
            "servers[0].trained_on: unknown key here; it belongs to [drafts.NAME]",
        ),
        (
            HEAD + "num_draft_tokens = 3" + CHAIN,
            "drafts.eagle3.num_draft_tokens: unknown key here; it belongs to [[servers]]",
        ),
        (
            HEAD + "zzz = 3" + CHAIN,
            "drafts.eagle3.zzz: unknown key; valid keys: path, revision, trained_on, load_format",
        ),
        (
            HEAD + "[defaults]\nprompts = { count = 3 }" + CHAIN,
            "defaults.prompts: unknown key here; it belongs to the top level or [[servers]]",
        ),
        (
            HEAD + CHAIN + "cpu = { tp = 2 }",
            "servers[0].cpu.tp: unknown key here; it belongs to [[servers]]",
        ),
        (
            HEAD + CHAIN + "gpu = { throughput = { round = 2 } }",
            "servers[0].gpu.throughput.round: unknown key; did you mean 'rounds'?",
        ),
        ('name = "x"' + HEAD + CHAIN, "name: unknown key; a profile is named by its file"),
        ("sever = 1" + HEAD + CHAIN, "sever: unknown key; did you mean 'servers'?"),
        (CHAIN, "target: a table that is required"),
        (HEAD, "servers: a table that is required"),
        ("servers = []" + HEAD, "servers: expected at least one [[servers]] table, got []"),
        (
            '[target]\nrevision = "x"\n' + NONE,
            "target.path: a key that is required",
        ),
        (
            HEAD.replace("eagle3]", "Mine]") + NONE,
            "drafts.Mine: expected a slug of a-z, 0-9, '.', '-' that starts with a letter or "
            "digit, got 'Mine'",
        ),
        (
            HEAD.replace("eagle3]", "none]") + NONE,
            "drafts.none: this name means 'without a draft'; choose another",
        ),
        (
            HEAD.replace('"builtin:tiny"', '"$HOME/x"') + NONE,
            "target.path: expected environment variables written as ${NAME}, got '$HOME/x'",
        ),
        (
            HEAD.replace('"builtin:tiny"', '""') + NONE,
            "target.path: expected a path, a hub id or builtin:NAME, got ''",
        ),
        (
            HEAD + 'trained_on = ["embeddings"]' + CHAIN,
            'drafts.eagle3.trained_on: expected a list of layer ids >= 0 or "embedding" (= -1), '
            "e.g. [\"embedding\", 1, 3], got 'embeddings'",
        ),
        (
            HEAD + "trained_on = [-2]" + CHAIN,
            'drafts.eagle3.trained_on: expected a list of layer ids >= 0 or "embedding" (= -1), '
            'e.g. ["embedding", 1, 3], got -2',
        ),
    ],
)
def test_keys_and_names(refusal: Refusal, text: str, message: str) -> None:
    assert refusal(text) == [message]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('tp = "2"', "tp: expected a whole number, got '2'"),
        ("tp = 2.0", "tp: expected a whole number, got 2.0"),
        ("tp = true", "tp: expected a whole number, got True"),
        ("tp = 0", "tp: expected a number >= 1, got 0"),
        ("skip_tokenizer = 1", "skip_tokenizer: expected true or false, got 1"),
        ("attention_backend = 3", "attention_backend: expected a string, got 3"),
        (
            'attention_backend = ""',
            "attention_backend: expected a string that is not empty, got ''",
        ),
        ("mem_fraction_static = 1", "mem_fraction_static: expected a number < 1, got 1"),
        ('mem_fraction_static = "x"', "mem_fraction_static: expected a number, got 'x'"),
        ("boot_timeout_s = inf", "boot_timeout_s: expected a finite number, got inf"),
        ("boot_timeout_s = nan", "boot_timeout_s: expected a finite number, got nan"),
        ("acceptance_floor = 1.1", "acceptance_floor: expected a number > 1.1, got 1.1"),
        ("category_floors = { a = 1 }", "category_floors.a: expected a number > 1.1, got 1"),
        ("category_floors = 2.0", "category_floors: expected a table, got 2.0"),
        ("gpu = 1", "gpu: expected a table, got 1"),
        (
            'algorithm = "eagle3"',
            "algorithm: expected one of EAGLE, EAGLE3, NEXTN, STANDALONE, got 'eagle3'; "
            "did you mean 'EAGLE3'?",
        ),
        (
            'algorithm = "EAGLE4"',
            "algorithm: expected one of EAGLE, EAGLE3, NEXTN, STANDALONE, got 'EAGLE4'; "
            "did you mean 'EAGLE3'?",
        ),
        (
            "algorithm = 3",
            "algorithm: expected one of EAGLE, EAGLE3, NEXTN, STANDALONE, got 3",
        ),
        (
            'devices = "cuda"',
            "devices: expected gpu or cpu, or a list of them without repeats, got 'cuda'",
        ),
        (
            'devices = ["gpu", "gpu"]',
            "devices: expected gpu or cpu, or a list of them without repeats, got ['gpu', 'gpu']",
        ),
        ("devices = []", "devices: expected gpu or cpu, or a list of them without repeats, got []"),
        (
            "cuda_graphs = 1",
            "cuda_graphs: expected true or false, or a list of them without repeats, got 1",
        ),
        (
            'cuda_graphs = [true, "off"]',
            "cuda_graphs: expected true or false, or a list of them without repeats, "
            "got [True, 'off']",
        ),
        (
            'args = "--x"',
            'args: expected a list of strings, one per word, e.g. ["--sampling-backend", '
            "\"pytorch\"], got '--x'",
        ),
        (
            'args = ["--x 1"]',
            'args: expected a list of strings, one per word, e.g. ["--sampling-backend", '
            "\"pytorch\"], got '--x 1'",
        ),
        ('args = ["x"]', "args: expected the first word to be a flag (--name), got 'x'"),
        ("env = { A = 1 }", "env: expected a string (in quotes) for A, got 1"),
        ('env = { "A-B" = "1" }', "env: expected names of environment variables, got 'A-B'"),
        ('env = "A=1"', "env: expected a table of strings, e.g. { NAME = \"1\" }, got 'A=1'"),
        (
            'env = { CUDA_VISIBLE_DEVICES = "1" }',
            "env: CUDA_VISIBLE_DEVICES is not yours: the suite leases GPUs",
        ),
        (
            'label = "Big Batch"',
            "label: expected a slug of a-z, 0-9, '.', '-' that starts with a letter or digit, "
            "got 'Big Batch'",
        ),
        (
            'host = "0.0.0.0"',
            "host: '0.0.0.0' can be reached by others: set DRAFTGATE_API_KEY in the environment, "
            "or use 127.0.0.1",
        ),
        (
            'host = "gpu7.example.org"',
            "host: 'gpu7.example.org' can be reached by others: set DRAFTGATE_API_KEY in the "
            "environment, or use 127.0.0.1",
        ),
        (
            "nnodes = 2",
            "nnodes: expected a divisor of tp (1), got 2",
        ),
        (
            'tp = 2\ndp = 4\nargs = ["--enable-dp-attention"]',
            "dp: expected a divisor of tp (2) with --enable-dp-attention, got 4",
        ),
        (
            'devices = ["gpu", "cpu"]\ntp = 2',
            "tp: the CPU engine serves with tp = 1 only, got 2: put it in a gpu table or take cpu "
            "out of devices",
        ),
        ("cpu = { context_length = 1 }", "cpu: has no effect: no 'cpu' in devices"),
        (
            "acceptance_floor = 4.5",
            "acceptance_floor: expected at most 4, the most tokens a verify step can yield, "
            "got 4.5",
        ),
        (
            "acceptance_ceiling = 5",
            "acceptance_ceiling: expected at most 4, the most tokens a verify step can yield, "
            "got 5.0",
        ),
        (
            "category_floors = { math = 4.5 }",
            "category_floors.math: expected at most 4, the most tokens a verify step can yield, "
            "got 4.5",
        ),
        (
            "acceptance_floor = 3.0\nacceptance_ceiling = 3.0",
            "acceptance_floor: expected less than acceptance_ceiling (3.0), got 3.0",
        ),
    ],
)
def test_values_of_a_server(refusal: Refusal, line: str, message: str) -> None:
    assert refusal(HEAD + CHAIN + line) == [f"servers[0].{message}"]


@pytest.mark.parametrize(
    ("server", "messages"),
    [
        (
            'draft = "eagle3"\nnum_steps = 3\ntopk = 1\nnum_draft_tokens = 16',
            [
                "servers[0].num_draft_tokens: expected 4 (num_steps + 1) with topk 1, got 16: "
                "SGLang would silently serve 4"
            ],
        ),
        (
            'draft = "eagle3"\nnum_steps = 1\ntopk = 4\nnum_draft_tokens = 6',
            [
                "servers[0].num_draft_tokens: expected at most 5, all that a tree of num_steps 1 "
                "and topk 4 can hold, got 6"
            ],
        ),
        (
            'draft = "eagle3"\nnum_steps = 3\ntopk = 4\nnum_draft_tokens = 1',
            ["servers[0].num_draft_tokens: expected a number >= 2, got 1"],
        ),
        (
            'draft = "eagle3"\ntopk = 1',
            [
                "servers[0]: num_steps, num_draft_tokens missing: give all three numbers, "
                "SGLang's defaults vary"
            ],
        ),
        (
            'draft = "eagel3"\nnum_steps = 3\ntopk = 1\nnum_draft_tokens = 4',
            ["servers[0].draft: no [drafts.eagel3] in this file; did you mean 'eagle3'?"],
        ),
        (
            'draft = "x"\nnum_steps = 3\ntopk = 1\nnum_draft_tokens = 4',
            ["servers[0].draft: no [drafts.x] in this file; drafts of this file: eagle3"],
        ),
        (
            'num_steps = 3\nalgorithm = "EAGLE3"\nacceptance_floor = 2.0',
            [
                "servers[0].num_steps: given without a draft; name one: draft = ...",
                "servers[0].algorithm: given without a draft; name one: draft = ...",
                "servers[0].acceptance_floor: given without a draft; name one: draft = ...",
            ],
        ),
    ],
)
def test_drafts_and_their_numbers(refusal: Refusal, server: str, messages: list[str]) -> None:
    assert refusal(f"{HEAD}[[servers]]\n{server}") == messages


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            '"--tp", "2"',
            "--tp may not be given here: use the key 'tp'",
        ),
        (
            '"--tensor-par=2"',
            "--tensor-par may not be given here (it can stand for --tensor-parallel-size): "
            "use the key 'tp'",
        ),
        (
            '"--speculative-num-st", "3"',
            "--speculative-num-st may not be given here (it can stand for "
            "--speculative-num-steps): use the key 'num_steps'",
        ),
        (
            '"--model-path=x"',
            "--model-path may not be given here: use the key '[target] path'",
        ),
        (
            '"--po", "1"',
            "--po may not be given here (it can stand for --port): the suite chooses a free port",
        ),
        (
            '"--disable-cuda-graph"',
            "--disable-cuda-graph may not be given here: use the key 'cuda_graphs'",
        ),
        (
            '"--attn-dp-size", "2"',
            "--attn-dp-size may not be given here: use the key 'dp' with --enable-dp-attention in "
            "args",
        ),
        (
            '"--api-key", "s3cret"',
            "--api-key may not be given here: set DRAFTGATE_API_KEY in the environment",
        ),
    ],
)
def test_arguments_that_a_key_owns(refusal: Refusal, args: str, message: str) -> None:
    assert refusal(HEAD + CHAIN + f"args = [{args}]") == [f"servers[0].args: {message}"]
    defaults = f"[defaults.gpu]\nargs = [{args}]\n"
    assert refusal(HEAD + defaults + NONE + CHAIN) == [f"defaults.gpu.args: {message}"]


@pytest.mark.parametrize(
    "flag",
    [
        "--disable-cuda-graph-padding",
        "--speculative-attention-mode",
        "--speculative-token-map",
        "--cuda-graph-backend-prefill",
        "--dist-init-addr",
        "--page-size",
        "--",
    ],
)
def test_other_arguments_are_left_alone(load: object, flag: str) -> None:
    profile = load(HEAD + CHAIN + f'args = ["{flag}", "1"]')  # type: ignore[operator]
    assert profile.servers[0].args == (flag, "1")


def test_two_servers_of_one_id_need_a_label(refusal: Refusal) -> None:
    assert refusal(HEAD + NONE + CHAIN + CHAIN + 'host = "localhost"') == [
        "servers[2]: same id 'mine/eagle3-s3k1d4/graph' as servers[1]: give one of them a label"
    ]


@pytest.mark.parametrize(
    ("key", "value"), [("acceptance_floor", "2.0"), ("category_floors", "{ math = 2.0 }")]
)
def test_a_floor_on_random_weights_is_refused(refusal: Refusal, key: str, value: str) -> None:
    text = "acceptance_means_something = false" + HEAD + CHAIN + f"{key} = {value}"
    assert refusal(text) == [
        f"servers[0].{key}: judges nothing while acceptance_means_something = false: "
        "take one of them out"
    ]


def test_all_mistakes_of_a_file_come_at_once(refusal: Refusal) -> None:
    text = HEAD + "pat = 1\n[throughput]\nrounds = 0\n" + CHAIN + "num_step = 3\ntp = 0"
    assert refusal(text) == [
        "drafts.eagle3.pat: unknown key; did you mean 'path'?",
        "throughput.rounds: expected a number >= 2, got 0",
        "servers[0].tp: expected a number >= 1, got 0",
        "servers[0].num_step: unknown key; did you mean 'num_steps'?",
    ]


def test_a_message_has_at_most_15_lines(refusal: Refusal) -> None:
    lines = refusal(HEAD + CHAIN + "\n".join(f"qqq{number} = 1" for number in range(30)))
    assert len(lines) == 14
    assert lines[0].startswith("servers[0].qqq0: unknown key; valid keys: ")
    assert lines[-1] == "and 17 more"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[target]\npath = \n", "not TOML: Invalid value (at line 2, column 8)"),
        (b"a = 1\na = 2\n", "not TOML: Cannot overwrite a value (at line 2, column 6)"),
        (b'a = "x', "not TOML: Unterminated string (at end of document)"),
        (b"a = \xff", "not UTF-8 (byte 4)"),
        (
            b"",
            "2 mistakes\n  target: a table that is required\n  servers: a table that is required",
        ),
    ],
)
def test_files_that_are_not_toml(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(ProfileError) as error:
        load_profile(path, {})
    assert str(error.value) == f"{path}: {message}"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ProfileError) as error:
        load_profile(tmp_path / "absent.toml", {})
    assert str(error.value) == f"{tmp_path}/absent.toml: cannot be read: No such file or directory"
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(ProfileError) as error:
        load_profile(tmp_path / "folder.toml", {})
    assert str(error.value) == f"{tmp_path}/folder.toml: cannot be read: Is a directory"


def test_a_file_name_is_a_slug(tmp_path: Path) -> None:
    path = tmp_path / "My Pair.toml"
    path.write_text(HEAD + NONE)
    with pytest.raises(ProfileError) as error:
        load_profile(path, {})
    assert str(error.value) == (
        f"{path}: a profile is named by its file: expected a file name of a-z, 0-9, '.', '-' that "
        "starts with a letter or digit, got 'My Pair'"
    )


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xef\xbb\xbf" + (HEAD + NONE).encode())
    assert load_profile(path, {}).servers[0].id == "mine/none/graph"
