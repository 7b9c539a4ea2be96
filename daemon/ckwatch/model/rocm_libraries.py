"""The libraries of ROCm whose headers can be fetched: what they are called, and how they are included."""

from __future__ import annotations

from collections.abc import Iterable

from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RocmLibrary:
    """A library whose headers Debian has: `header` is the main one, `folders` those that headers are included from.

    `packages` are Debian's, the first of which tells the version; `needs` other libraries that the headers include.
    `source`: the folder in Debian's source package of headers that its binary package lacks.
    """

    title: str
    header: str
    folders: tuple[str, ...]
    packages: tuple[str, ...]
    needs: tuple[str, ...] = ()
    source: str = ""

    @property
    def name(self) -> str:
        """The library's name in commands."""
        return self.title.lower()


def _library(title: str, header: str, needs: str = "", *, common: str = "", source: str = "") -> RocmLibrary:
    names = (title.lower(), *([common] if common else []))
    folders = (header.partition("/")[0], *names[1:])
    return RocmLibrary(title, header, folders, tuple(f"lib{name}-dev" for name in names), tuple(needs.split()), source)


LIBRARIES = {
    library.name: library
    for library in (
        _library("rocPRIM", "rocprim/rocprim.hpp"),
        _library("hipCUB", "hipcub/hipcub.hpp", "rocprim"),
        _library("rocThrust", "thrust/version.h", "rocprim"),
        _library("rocWMMA", "rocwmma/rocwmma.hpp", source="library/include/rocwmma"),
        _library("hipBLAS", "hipblas/hipblas.h", common="hipblas-common"),
        _library("rocBLAS", "rocblas/rocblas.h"),
        _library("hipBLASLt", "hipblaslt/hipblaslt.h", "hipblas"),
        _library("rocRAND", "rocrand/rocrand.h"),
        _library("hipRAND", "hiprand/hiprand.h", "rocrand"),
        _library("rocFFT", "rocfft/rocfft.h"),
        _library("hipFFT", "hipfft/hipfft.h"),
        _library("rocSPARSE", "rocsparse/rocsparse.h"),
        _library("hipSPARSE", "hipsparse/hipsparse.h"),
        _library("hipSPARSELt", "hipsparselt/hipsparselt.h", "hipsparse"),
        _library("rocSOLVER", "rocsolver/rocsolver.h", "rocblas"),
        _library("hipSOLVER", "hipsolver/hipsolver.h"),
        _library("rocALUTION", "rocalution/rocalution.hpp"),
        _library("MIOpen", "miopen/miopen.h"),
        _library("RCCL", "rccl/rccl.h"),
        _library("ROCTx", "roctracer/roctx.h"),
        _library("rocm-core", "rocm-core/rocm_version.h"),
    )
}


def install_command(names: Iterable[str]) -> str:
    """The command that fetches the headers of libraries."""
    return f"ckwatch toolchain install --with {','.join(names)}"
