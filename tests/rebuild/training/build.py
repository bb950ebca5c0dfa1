"""Rebuild the committed pair: ``python -m tests.rebuild.training.build OUT_DIR [--check]``.

Makes the target ``tiny``, its drafts ``tiny-eagle3`` and ``tiny-eagle3-embed``, the held-out
prompts and ``SHA256SUMS``; a few minutes on two cores. Needs torch and safetensors, no SGLang.

What the bits depend on: the seed, two threads, deterministic algorithms and the instruction set,
all fixed here, and the version of torch with its BLAS, which is not; nor is it proven that two
makes of CPU agree once both are held to AVX2. ``--check`` compares the rebuild with the committed
files, names every file that differs together with the versions in play, and exits 1.
A difference under another torch is no proof of a fault: the replayed acceptance lengths, printed
either way, say whether the rebuilt pair is as good.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from draftgate.models.location import BUILTIN_FOLDER
from draftgate.models.weights import sha256_of

COMMITTED = BUILTIN_FOLDER
SUMS_FILE = "SHA256SUMS"
VERSIONS_FILE = "built_with.json"
SEED = 0
THREADS = 2
PROMPT_COUNT = 32
PROMPT_LENGTH = 24
NEW_TOKENS = 128
DRAFTS = {"tiny-eagle3": (1, 3, 5), "tiny-eagle3-embed": (-1, 1, 3)}

ENVIRONMENT = {
    # Without these three, every library picks the widest vectors of the CPU at hand, and the
    # order of additions changes with them.
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "AVX2,STRICT",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    # Threads that spin at every barrier make the build ten times slower on a busy machine.
    "OMP_WAIT_POLICY": "PASSIVE",
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rebuild.training.build",
        description="Rebuild the built-in target, drafts and prompts from their seed.",
    )
    parser.add_argument("out_dir", type=Path, help="where the files go")
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare with the committed files; exit 1 if they differ",
    )
    arguments = parser.parse_args()
    started = time.perf_counter()
    build(arguments.out_dir)
    _say(f"built in {time.perf_counter() - started:.0f} s with {json.dumps(_versions())}")
    if not arguments.check:
        return 0
    differing = differing_files(COMMITTED, arguments.out_dir)
    for line in differing:
        _say(f"DIFFERS: {line}")
    if differing:
        _say(
            "The committed files were built with"
            f" {(COMMITTED / VERSIONS_FILE).read_text(encoding='ascii').strip()}; other versions"
            " give other bits. Compare the acceptance lengths above before suspecting the code."
        )
        return 1
    _say("the rebuild equals the committed files, bit for bit")
    return 0


def build(out_dir: Path) -> None:
    """Write all files of ``fixtures/draftgate/models/builtin`` into ``out_dir``."""
    os.environ.update(ENVIRONMENT)  # read by the libraries when they are loaded
    import torch

    from tests.rebuild.training.eagle3 import draft_config
    from tests.rebuild.training.language import Language
    from tests.rebuild.training.storage import half_precision, load_target, save_folder
    from tests.rebuild.training.train_draft import (
        DRAFT_INTERMEDIATE_SIZE,
        DRAFT_VOCAB_SIZE,
        draft_vocabulary,
        train_draft,
    )
    from tests.rebuild.training.train_target import TARGET_CONFIG, train_target

    torch.set_num_threads(THREADS)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # slow, and nothing reads any
    language = Language(SEED)
    _write_prompts(out_dir / "prompts" / "tiny.jsonl", language)
    target_folder = out_dir / "tiny"
    trained = train_target(SEED, _say)
    save_folder(target_folder, TARGET_CONFIG, half_precision(trained), {})
    target = load_target(target_folder)  # rounded to bfloat16: what a server will run
    vocabulary = draft_vocabulary(language, target.shape.vocab_size)
    for name, layer_ids in DRAFTS.items():
        config = draft_config(
            TARGET_CONFIG,
            layer_ids,
            vocab_size=DRAFT_VOCAB_SIZE,
            intermediate_size=DRAFT_INTERMEDIATE_SIZE,
        )
        draft = train_draft(target, config, vocabulary, SEED, _say)
        tensors = {**half_precision(draft), "d2t": vocabulary.d2t(), "t2d": vocabulary.t2d()}
        provenance = {
            "eagle3.trained_on_layers": json.dumps(layer_ids),
            "eagle3.target_sha256": sha256_of(target_folder / "model.safetensors"),
        }
        save_folder(out_dir / name, config, tensors, provenance)
        _report_acceptance(out_dir / name, target, language)
    _write_sums(out_dir)
    versions = json.dumps(_versions())
    (out_dir / VERSIONS_FILE).write_text(versions + "\n", encoding="ascii")


def differing_files(expected: Path, found: Path) -> list[str]:
    """One line per file of ``expected``'s SHA256SUMS that is absent from or other in ``found``."""
    lines = []
    for line in (expected / SUMS_FILE).read_text(encoding="ascii").splitlines():
        wanted, name = line.split(maxsplit=1)
        file = found / name
        got = sha256_of(file) if file.is_file() else "no such file"
        if got != wanted:
            lines.append(f"{name}: sha256 {got}, committed {wanted}")
    return lines


def _write_prompts(file: Path, language: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    documents = language.held_out_documents(PROMPT_COUNT, PROMPT_LENGTH)
    prompts = [{"id": f"h{i:02d}", "input_ids": ids} for i, ids in enumerate(documents)]
    text = "".join(json.dumps(prompt) + "\n" for prompt in prompts)
    file.write_text(text, encoding="ascii")


def _report_acceptance(folder: Path, target: Any, language: Any) -> None:
    import torch

    from tests.rebuild.training.replay import continue_greedily, replay, right_proposals
    from tests.rebuild.training.storage import load_draft

    draft, target_ids = load_draft(folder)
    longest = 5
    prompts = torch.tensor(language.held_out_documents(PROMPT_COUNT, PROMPT_LENGTH))
    tokens = continue_greedily(target, prompts, NEW_TOKENS + longest)
    layer_ids = DRAFTS[folder.name]
    right = right_proposals(target, draft, target_ids, layer_ids, tokens, longest)
    for steps in (3, longest):
        result = replay(right, PROMPT_LENGTH, NEW_TOKENS, steps)
        _say(
            f"{folder.name} alone at {steps}/1/{steps + 1}: acceptance length"
            f" {result.acceptance_length:.3f}, histogram {list(result.histogram)}"
        )


def _write_sums(out_dir: Path) -> None:
    files = [
        f"{folder}/{name}"
        for folder in ("tiny", *DRAFTS)
        for name in ("config.json", "model.safetensors")
    ]
    files.append("prompts/tiny.jsonl")
    text = "".join(f"{sha256_of(out_dir / name)}  {name}\n" for name in sorted(files))
    (out_dir / SUMS_FILE).write_text(text, encoding="ascii")


def _versions() -> dict[str, str]:
    import safetensors
    import torch

    return {
        "torch": str(torch.__version__),
        "safetensors": safetensors.__version__,
        "machine": platform.machine(),
        "instruction_set": torch.backends.cpu.get_cpu_capability(),
    }


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
