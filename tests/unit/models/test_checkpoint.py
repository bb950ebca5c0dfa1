from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from draftgate.errors import ModelError
from draftgate.models.checkpoint import Checkpoint, read_checkpoint
from draftgate.models.weights import TensorInfo

Entries = Mapping[str, tuple[str, list[int], bytes]]

SMALL: Entries = {
    "d2t": ("I64", [3], struct.pack("<3q", 5, -7, 1 << 40)),
    "t2d": ("BOOL", [2, 2], bytes([1, 0, 0, 1])),
    "fc.weight": ("BF16", [2, 3], bytes(range(12))),
}


def pack(entries: Entries, metadata: Mapping[str, Any] | None = None) -> bytes:
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    data = b""
    for name, (dtype, shape, values) in entries.items():
        offsets = [len(data), len(data) + len(values)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        data += values
    return pack_header(header) + data


def pack_header(header: Any) -> bytes:
    encoded = json.dumps(header).encode()
    return struct.pack("<Q", len(encoded)) + encoded


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"hidden_size": 2, "a": 1}')
    return tmp_path


def write(folder: Path, content: bytes, name: str = "model.safetensors") -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def test_tensors_config_and_metadata(folder: Path) -> None:
    file = write(folder, pack(SMALL, {"format": "pt", "eagle3.target_sha256": "abc"}))
    checkpoint = read_checkpoint(folder)
    assert checkpoint.folder == folder
    assert checkpoint.config == {"hidden_size": 2, "a": 1}
    assert checkpoint.weight_files == (file,)
    assert checkpoint.metadata == {"format": "pt", "eagle3.target_sha256": "abc"}
    assert checkpoint.trained_on_target_sha256 == "abc"
    assert checkpoint.tensors == {
        "d2t": TensorInfo("I64", (3,), file),
        "t2d": TensorInfo("BOOL", (2, 2), file),
        "fc.weight": TensorInfo("BF16", (2, 3), file),
    }


def test_integers(folder: Path) -> None:
    write(folder, pack(SMALL))
    checkpoint = read_checkpoint(folder)
    assert checkpoint.read_integers("d2t") == (5, -7, 1 << 40)
    assert checkpoint.read_integers("t2d") == (1, 0, 0, 1)


@pytest.mark.parametrize(
    ("dtype", "code", "values"),
    [
        ("U8", "B", (0, 255)),
        ("I8", "b", (-128, 127)),
        ("I16", "h", (-(2**15), 2**15 - 1)),
        ("I32", "i", (-(2**31), 2**31 - 1)),
    ],
)
def test_integers_of_every_width(
    folder: Path, dtype: str, code: str, values: tuple[int, int]
) -> None:
    write(folder, pack({"x": (dtype, [2], struct.pack(f"<2{code}", *values))}))
    assert read_checkpoint(folder).read_integers("x") == values


def test_integers_refuse_what_they_cannot_read(folder: Path) -> None:
    write(folder, pack(SMALL))
    checkpoint = read_checkpoint(folder)
    with pytest.raises(ModelError, match="no tensor 'absent'"):
        checkpoint.read_integers("absent")
    with pytest.raises(ModelError, match=r"model.safetensors: fc.weight is BF16 \[2, 3\]"):
        checkpoint.read_integers("fc.weight")


@pytest.mark.parametrize(
    ("text", "layers"), [("[1, 3, 5]", (1, 3, 5)), ("[-1,1,3]", (-1, 1, 3)), (None, None)]
)
def test_trained_on(folder: Path, text: str | None, layers: tuple[int, ...] | None) -> None:
    metadata = {} if text is None else {"eagle3.trained_on_layers": text}
    write(folder, pack(SMALL, {"format": "pt", **metadata}))
    assert read_checkpoint(folder).trained_on == layers


@pytest.mark.parametrize("text", ["1, 3, 5", '"135"', "[1, 3.0]", "[true]", "{}", ""])
def test_trained_on_that_is_no_list_of_integers(folder: Path, text: str) -> None:
    write(folder, pack(SMALL, {"eagle3.trained_on_layers": text}))
    with pytest.raises(ModelError, match="eagle3.trained_on_layers must be a JSON list"):
        read_checkpoint(folder)


def test_folder_without_weights(folder: Path) -> None:
    checkpoint = read_checkpoint(folder)
    assert (checkpoint.tensors, checkpoint.weight_files) == ({}, ())
    assert (checkpoint.weights_hash, checkpoint.trained_on) == (None, None)


def test_pickled_weights_are_named_and_hashed_but_not_read(folder: Path) -> None:
    file = write(folder, b"pickle", "pytorch_model.bin")
    checkpoint = read_checkpoint(folder)
    assert (checkpoint.tensors, checkpoint.weight_files) == ({}, (file,))
    before = checkpoint.weights_hash
    assert before is not None
    write(folder, b"pickl3", "pytorch_model.bin")
    assert read_checkpoint(folder).weights_hash != before


class TestShards:
    @pytest.fixture
    def sharded(self, folder: Path) -> Path:
        write(folder, pack({"d2t": SMALL["d2t"]}, {"a": "1"}), "part-1.safetensors")
        write(folder, pack({"t2d": SMALL["t2d"]}, {"b": "2"}), "part-2.safetensors")
        write_index(folder, {"d2t": "part-1.safetensors", "t2d": "part-2.safetensors"})
        return folder

    def test_all_are_read(self, sharded: Path) -> None:
        checkpoint = read_checkpoint(sharded)
        assert {name: info.file.name for name, info in checkpoint.tensors.items()} == {
            "d2t": "part-1.safetensors",
            "t2d": "part-2.safetensors",
        }
        assert checkpoint.metadata == {"a": "1", "b": "2"}
        assert checkpoint.read_integers("t2d") == (1, 0, 0, 1)

    def test_files_outside_the_index_are_left_alone(self, sharded: Path) -> None:
        write(sharded, b"broken", "other.safetensors")
        assert set(read_checkpoint(sharded).tensors) == {"d2t", "t2d"}

    def test_missing_shard(self, sharded: Path) -> None:
        (sharded / "part-2.safetensors").unlink()
        with pytest.raises(ModelError, match=r"1 of them are missing \(part-2.safetensors first\)"):
            read_checkpoint(sharded)

    def test_tensor_that_is_not_where_the_index_says(self, sharded: Path) -> None:
        write_index(sharded, {"d2t": "part-2.safetensors", "t2d": "part-2.safetensors"})
        with pytest.raises(ModelError, match="tensor 'd2t' should be in part-2.safetensors"):
            read_checkpoint(sharded)

    @pytest.mark.parametrize("weight_map", [None, ["a"], {"a": 1}, {"a": "../b.safetensors"}])
    def test_index_without_a_usable_map(self, sharded: Path, weight_map: Any) -> None:
        write_index(sharded, weight_map)
        with pytest.raises(ModelError, match="index.json: weight_map must be an object"):
            read_checkpoint(sharded)

    def test_same_tensor_twice_without_index(self, folder: Path) -> None:
        write(folder, pack(SMALL), "a.safetensors")
        write(folder, pack(SMALL), "b.safetensors")
        with pytest.raises(ModelError, match=r"b.safetensors: tensor 'd2t' is also in a.saf"):
            read_checkpoint(folder)

    def test_second_copy_in_one_file_is_skipped(self, folder: Path) -> None:
        write(folder, pack(SMALL), "consolidated.safetensors")
        file = write(folder, pack(SMALL))
        assert read_checkpoint(folder).weight_files == (file,)


def write_index(folder: Path, weight_map: Any) -> None:
    text = json.dumps({"metadata": {}, "weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(text)


def tensor(**entry: Any) -> bytes:
    return pack_header({"x": entry}) + bytes(8)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(b"", r"\(0 bytes; header too small", id="empty"),
        pytest.param(b"1234567", r"\(7 bytes; header too small", id="seven bytes"),
        pytest.param(
            b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer", id="git lfs"
        ),
        pytest.param(b"PK\x03\x04" + bytes(5) + b"\x00", "invalid header length", id="zip"),
        pytest.param(b"\xff" * 20, "no safetensors file .*; header too large", id="noise"),
        pytest.param(
            pack(SMALL)[:60], r"cut off.* \(60 bytes; invalid header length", id="cut header"
        ),
        pytest.param(pack(SMALL)[:-1], "cut off.* file not fully covered", id="cut data"),
        pytest.param(pack(SMALL) + b"\0", "damaged.* file not fully covered", id="too long"),
        pytest.param(struct.pack("<Q", 4) + b"{..}", "invalid JSON in header", id="no JSON"),
        pytest.param(struct.pack("<Q", 1) + b"\xff", "invalid UTF-8 in header", id="no UTF-8"),
        pytest.param(pack_header([1]), "invalid type: sequence", id="list"),
        pytest.param(
            pack_header({"__metadata__": 1}),
            "invalid type: integer `1`, expected a map",
            id="metadata",
        ),
        pytest.param(pack_header({"x": 1}), "expected struct TensorInfo", id="no entry"),
        pytest.param(
            tensor(dtype="F32", shape=[2]), "missing field `data_offsets`", id="no offsets"
        ),
        pytest.param(
            tensor(dtype="F32", shape=[2], data_offsets=[0]),
            "invalid length 1, expected a tuple of size 2",
            id="one offset",
        ),
        pytest.param(
            tensor(dtype="F32", shape=[3], data_offsets=[0, 8]),
            "invalid shape, data type, or offset for tensor",
            id="size",
        ),
        pytest.param(
            tensor(dtype="U8", shape=[1 << 62, 16], data_offsets=[0, 8]),
            "overflow computing buffer size",
            id="overflow",
        ),
        pytest.param(
            tensor(dtype="Q4", shape=[16], data_offsets=[0, 8]), "unknown variant `Q4`", id="type"
        ),
        pytest.param(
            tensor(dtype="U8", shape=[7], data_offsets=[1, 8]),
            "invalid offset for tensor `x`",
            id="hole",
        ),
    ],
)
def test_broken_file_is_named_with_what_is_wrong(
    folder: Path, content: bytes, complaint: str
) -> None:
    file = write(folder, content)
    with pytest.raises(ModelError, match=complaint) as caught:
        read_checkpoint(folder)
    assert str(caught.value).startswith(f"{file}: ")


def test_unreadable_weights(folder: Path) -> None:
    (folder / "model.safetensors").mkdir()
    with pytest.raises(ModelError, match=r"model.safetensors: cannot be read: Is a directory"):
        read_checkpoint(folder)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("{", "no valid JSON: .*line 1"), ("[]", "must hold a JSON object, not a list")],
)
def test_broken_config(folder: Path, content: str, complaint: str) -> None:
    (folder / "config.json").write_text(content)
    with pytest.raises(ModelError, match=f"config.json: {complaint}"):
        read_checkpoint(folder)


def test_missing_config(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="config.json: no such file"):
        read_checkpoint(tmp_path)


class TestHashes:
    def test_config_hash_ignores_layout_but_not_values(self, folder: Path) -> None:
        before = read_checkpoint(folder).config_hash
        (folder / "config.json").write_text('{"a":1,\n "hidden_size":2}')
        assert read_checkpoint(folder).config_hash == before
        (folder / "config.json").write_text('{"a":1, "hidden_size":3}')
        assert read_checkpoint(folder).config_hash != before

    def test_weights_hash_sees_one_byte_of_a_small_file(self, folder: Path) -> None:
        content = pack(SMALL)
        write(folder, content)
        before = read_checkpoint(folder).weights_hash
        assert read_checkpoint(folder).weights_hash == before
        write(folder, content[:-1] + b"\xff")
        assert read_checkpoint(folder).weights_hash != before

    def test_weights_hash_sees_metadata_and_index(self, folder: Path) -> None:
        hashes = set()
        for metadata in ({"a": "1"}, {"a": "2"}):
            write(folder, pack(SMALL, metadata))
            hashes.add(read_checkpoint(folder).weights_hash)
        write_index(folder, dict.fromkeys(SMALL, "model.safetensors"))
        hashes.add(read_checkpoint(folder).weights_hash)
        assert len(hashes) == 3

    def test_weights_hash_samples_large_files(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("draftgate.models.checkpoint.HASHED_WHOLE_BYTES", 1 << 20)
        size = 2 << 20
        hashes = [hash_of_zeros(folder, size, changed) for changed in (None, size - 1, 5000)]
        assert hashes[1] != hashes[0], "the last block is sampled"
        assert hashes[2] == hashes[0], "byte 5000 lies between the first two blocks"


def hash_of_zeros(folder: Path, size: int, changed: int | None) -> str | None:
    data = bytearray(size)
    if changed is not None:
        data[changed] = 1
    write(folder, pack({"x": ("U8", [size], bytes(data))}))
    checkpoint: Checkpoint = read_checkpoint(folder)
    return checkpoint.weights_hash
