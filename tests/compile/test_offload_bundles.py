"""Device code in host files: plain and compressed bundles, made here and damaged here."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import pytest
from backports import zstd

from ckwatch.compile.offload_bundles import DeviceCode, device_code, find_device_code
from fakes.fake_compiler import DEVICE_CODE, OBJECT, SHARED_OBJECT, bundle, elf

TARGET = "hipv4-amdgcn-amd-amdhsa--gfx942"
PLAIN = bundle(("host-x86_64-unknown-linux-gnu-", b""), (TARGET, DEVICE_CODE), (f"{TARGET}:xnack-", b"code"))


def compressed(version: int, method: str, plain: bytes = PLAIN) -> bytes:
    body = zlib.compress(plain) if method == "zlib" else zstd.compress(plain)
    head = {
        1: struct.pack("<IQ", len(plain), 0),
        2: struct.pack("<IIQ", len(body) + 24, len(plain), 0),
        3: struct.pack("<QQQ", len(body) + 32, len(plain), 0),
    }[version]
    return b"CCOB" + struct.pack("<HH", version, ("zlib", "zstd").index(method)) + head + body


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


@pytest.mark.parametrize(
    ("arch", "expected"),
    [("gfx942", DEVICE_CODE), ("gfx90a", None), ("gfx94", None), ("gfx942:xnack+", None)],
)
def test_device_code(file: Path, arch: str, expected: bytes | None) -> None:
    file.write_bytes(OBJECT)
    assert device_code(file, arch) == expected


def test_device_code_of_a_target_with_features(file: Path) -> None:
    target = "hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-"
    file.write_bytes(elf({".hip_fatbin": bundle((target, b"code"))}))
    assert device_code(file, "gfx942:sramecc+:xnack-") == b"code"


def test_no_device_code(file: Path) -> None:
    file.write_bytes(SHARED_OBJECT)
    assert device_code(file, "gfx942") is None


@pytest.mark.parametrize("method", ["zlib", "zstd"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_compressed(version: int, method: str) -> None:
    other = compressed(3, "zstd", bundle(("hip-amdgcn-amd-amdhsa-gfx90a", b"other")))
    first = compressed(version, method)
    within = f"{method}, version {version}"
    assert list(find_device_code(bytes(7) + first + bytes(9) + other)) == [
        DeviceCode(7, "gfx942", DEVICE_CODE, within),
        DeviceCode(7, "gfx942:xnack-", b"code", within),
        DeviceCode(16 + len(first), "gfx90a", b"other", "zstd, version 3"),
    ]


def test_every_bundle_and_code_object_of_a_linked_file() -> None:
    second = bundle(("hipv4-amdgpu9.42-amd-amdhsa-unknown-gfx9-4-generic", b"generic"))
    alone = DEVICE_CODE[:7] + b"\x40" + DEVICE_CODE[8:]
    data = elf({".text": b"__CLANG_OFFLOAD_BUNDLE__", ".hip_fatbin": PLAIN + bytes(100) + second, ".rodata": alone})
    found = list(find_device_code(data))
    assert [(one.arch, one.data) for one in found if not one.problem] == [
        ("gfx942", DEVICE_CODE), ("gfx942:xnack-", b"code"), ("gfx9-4-generic", b"generic"), ("", alone),
    ]  # fmt: skip
    assert [one.problem for one in found if one.problem] == ["has a damaged table of entries"]


def test_damaged_bundle(file: Path) -> None:
    whole = bundle(("hipv4-amdgcn-amd-amdhsa--gfx942", DEVICE_CODE))
    for length in (0, 10, 30, 50, len(whole) - 1):
        file.write_bytes(elf({".hip_fatbin": whole[:length]}))
        with pytest.raises(ValueError, match="bundle"):
            device_code(file, "gfx942")


@pytest.mark.parametrize("whole", [PLAIN, compressed(1, "zlib"), compressed(2, "zstd"), compressed(3, "zlib")])
def test_damage_is_yielded(whole: bytes) -> None:
    chance = random.Random(3)  # noqa: S311  # the same damage every time
    problems = 0
    for _ in range(200):
        damaged = bytearray(whole[: chance.choice([len(whole), chance.randrange(len(whole))])])
        for _ in range(min(len(damaged), chance.randrange(4))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        problems += any(one.problem for one in find_device_code(bytes(damaged)))
    assert problems > 50


def test_a_size_that_is_claimed_is_not_believed() -> None:
    """Four bytes more are not unpacked, and no memory is taken for two gibibytes."""
    for size, problem in (
        (len(PLAIN) - 4, "is damaged: its content is not of the size that it claims"),
        (len(PLAIN) + 4, "is damaged: its content is not of the size that it claims"),
        (2**31, "claims to be of 2,048 MiB in 208 bytes, which no code is: it is left out"),
    ):
        claimed = bytearray(compressed(2, "zstd"))
        struct.pack_into("<I", claimed, 12, size)
        found = next(find_device_code(bytes(claimed)))
        assert found.problem == problem
