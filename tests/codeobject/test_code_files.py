"""Code objects in files of any kind: made here of real ones, and damaged here."""

from __future__ import annotations

import json
import random
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
from backports import zstd

from ckwatch.codeobject.code_files import CodeFile, TritonMetadata, open_code_file
from fakes.fake_compiler import SHARED_OBJECT, bundle, elf
from helpers.code_objects import DATA, content
from helpers.each_row import each_row

GEMM = "gemm_f16_v3_128x128x64.gfx942"
CODE = {arch: content(f"gemm_bf16_bias_silu_64x64x32.{arch}") for arch in ("gfx942", "gfx90a", "gfx1100")}
BUNDLE = bundle(
    {f"hipv4-amdgcn-amd-amdhsa--{arch}:xnack-" if arch == "gfx90a" else f"hipv4-amdgcn-amd-amdhsa--{arch}": code
     for arch, code in CODE.items()}
)  # fmt: skip
FILE = Path("file")


def compressed(version: int, method: int, plain: bytes = BUNDLE) -> bytes:
    body = zlib.compress(plain) if method == 0 else zstd.compress(plain)
    head = {
        1: struct.pack("<IQ", len(plain), 0),
        2: struct.pack("<IIQ", len(body) + 24, len(plain), 0),
        3: struct.pack("<QQQ", len(body) + 32, len(plain), 0),
    }[version]
    return b"CCOB" + struct.pack("<HH", version, method) + head + body
