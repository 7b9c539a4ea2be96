"""Element types of HIP, CUDA and their libraries by the dtypes of kernel files."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ckwatch.model.lazy_dataclass import dataclass

_NAMES: Mapping[str, str] = {
    "f16": "half __half _Float16 __fp16 half_t fp16_t float16_t float16 f16 F16 Half fp16 __half_raw",
    "bf16": "hip_bfloat16 __hip_bfloat16 nv_bfloat16 __nv_bfloat16 bf16_t bhalf_t bfloat16_t bfloat16 BFloat16 __bf16",
    "f32": "float float_t float32_t fp32_t F32",
    "f64": "double double_t F64",
    "f8": "__hip_fp8_e4m3_fnuz __hip_fp8_e4m3 __nv_fp8_e4m3 Float8_e4m3fnuz Float8_e4m3fn fp8_t f8_t",
    "bf8": "__hip_fp8_e5m2_fnuz __hip_fp8_e5m2 __nv_fp8_e5m2 Float8_e5m2fnuz Float8_e5m2 bf8_t",
    "i8": "int8_t char I8",
    "u8": "uint8_t byte uchar",
    "i16": "int16_t short I16",
    "u16": "uint16_t ushort",
    "i32": "int int32_t I32",
    "u32": "unsigned uint32_t uint",
    "i64": "int64_t long I64",
    "u64": "uint64_t size_t ulong",
    "bool": "bool",
}

_SPELLED: Mapping[str, str] = {
    "short int": "int16_t", "unsigned short": "uint16_t", "signed char": "int8_t", "unsigned char": "uint8_t",
    "unsigned int": "uint32_t", "signed int": "int32_t",
    "unsigned long": "uint64_t", "long int": "int64_t", "long long": "int64_t", "long long int": "int64_t",
    "unsigned long long": "uint64_t", "unsigned long int": "uint64_t", "unsigned long long int": "uint64_t",
}  # fmt: skip
_DTYPES = {name: dtype for dtype, names in _NAMES.items() for name in names.split()}
_BASES = (
    "float double int uint char uchar long ulong longlong half __half bfloat16_ __hip_bfloat16 __nv_bfloat16".replace(
        " ", "|"
    )
)
_VECTORS = re.compile(
    rf"HIP_vector_type\s*<\s*(?P<inner>[\w ]+?)\s*,\s*(?P<lanes>\d+)\s*>|(?P<base>{_BASES})(?P<count>[1234])"
)
_VECTOR_BASES = {"uchar": "uint8_t", "ulong": "uint64_t", "longlong": "int64_t", "bfloat16_": "__hip_bfloat16"}
_SIZES = frozenset(
    ("int", "int32_t", "unsigned", "uint32_t", "uint", "int64_t", "long", "uint64_t", "size_t", "int16_t", "uint16_t")
)
_RUNTIME = {"float": "float", "double": "double", "bool": "bool"}


@dataclass(frozen=True, slots=True)
class ElementType:
    """A dtype, and how many of its elements a C++ type has."""

    dtype: str
    lanes: int = 1


def element_type(spelled: str) -> ElementType | None:
    """The dtype of a C++ type; None where the name alone does not tell it."""
    plain = _plain(spelled)
    vector = _VECTORS.fullmatch(plain)
    if vector is None:
        dtype = _DTYPES.get(plain)
        return None if dtype is None else ElementType(dtype)
    base = vector["inner"] or vector["base"]
    inner = element_type(_VECTOR_BASES.get(base, base))
    return None if inner is None else ElementType(inner.dtype, int(vector["lanes"] or vector["count"]))


def is_size(spelled: str) -> bool:
    """Return True for a whole number that a size argument can be passed for."""
    return _plain(spelled) in _SIZES


def runtime_type(spelled: str) -> str | None:
    """The type of a runtime argument that is passed for a C++ type; None where none is."""
    plain = _plain(spelled)
    if plain in _RUNTIME:
        return _RUNTIME[plain]
    return "float" if _DTYPES.get(plain) in ("f16", "bf16") else None


def _plain(spelled: str) -> str:
    words = " ".join(word for word in spelled.split() if word not in ("const", "typename", "struct"))
    return re.sub(r"^(?:\w+::)+|^::", "", _SPELLED.get(words, words))
