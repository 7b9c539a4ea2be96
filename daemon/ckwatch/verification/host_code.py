"""The uses that a shared object makes of the host beside HIP: no kernel needs to read files or the environment, to look
for other code, to start something, to know the time, or to take the place of HIP's functions.

They show by the names that it takes from libraries and those that it gives to others, and by instructions that make
system calls or read a clock. A library's code that is linked into it shows by these instructions alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ckwatch.compile import elf
from ckwatch.model.verification import EmulatedFinding, FindingKind

CK_LOGGING = b"CK_LOGGING\0"
"""A name in the environment that Composable Kernel's own headers read."""

_USUAL_LIBRARIES = re.compile(
    r"lib(amdhip64|hsa-runtime64|stdc\+\+|c\+\+|c\+\+abi|unwind|m|gcc_s|c|pthread|dl|rt|omp)\.so[.\d]*|ld-linux.*"
)
_USES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (what, re.compile(names))
    for what, names in (
        (
            "reads or writes files",
            (
                r"f(re)?open(64)?|_*open(at)?(64)?(_2)?|creat(64)?|opendir|shm_open|mmap(64)?|memfd_create|hipModuleLoad"
                r"|_Z\w*(basic_([io]?fstream|filebuf)|10filesystem)\w*"
            ),
        ),
        ("reads the environment", r"(secure_)?getenv|setenv|putenv|_*environ"),
        ("starts programs", r"system|popen|v?fork|clone|exec[lv]p?e?|execvpe|fexecve|posix_spawnp?|ptrace|syscall"),
        ("looks for other code", r"dlm?open|dlv?sym|dladdr1?|dl_iterate_phdr|mprotect|_?Py[A-Z_].*"),
        ("opens connections", r"socket(pair)?|connect|accept4?|bind|getaddrinfo|hipIpc.*"),
        ("starts threads", r"pthread_create|thrd_create|_ZNSt6thread15_M_start_thread.*|_ZNSt13__future_base.*"),
        (
            "reads a clock or sleeps",
            (
                r"clock(_gettime|_getres|_nanosleep)?|gettimeofday|times?|timespec_get|u?sleep|nanosleep|sched_yield"
                r"|_ZNSt6chrono3_V2.*|_ZNSt11this_thread11__sleep_for.*|hipEventElapsedTime"
            ),
        ),
        ("changes a device's settings", r"(rsmi|amdsmi|rocm_smi)_.*|hipDeviceReset"),
    )
)


_OF_HIP = re.compile(r"(hip[A-Z]|hsa_|roctx|rocprofiler)\w*")

_INSTRUCTIONS: Mapping[str, str] = {
    "rdtsc": "reads a clock", "rdtscp": "reads a clock", "rdpmc": "reads a clock", "syscall": "makes system calls",
    "sysenter": "makes system calls",
}  # fmt: skip
_ENCODED = re.compile(rb"\x0f[\x31\x33\x05\x34]|\x0f\x01\xf9|\xcd\x80")
_LISTED = re.compile(r"\t(rdtscp?|rdpmc|syscall|sysenter|int\s+\$0x80)\s*$", re.MULTILINE)


def host_findings(artifact: bytes) -> tuple[EmulatedFinding, ...]:
    """Return what a judge has to know of the host's code of a shared object by its names; nothing of a damaged one,
    which cannot be loaded either."""
    try:
        names, libraries = elf.imported_symbols(artifact), elf.needed_libraries(artifact)
        defined = elf.defined_symbols(artifact)
    except elf.ElfError:
        return ()
    texts = [f"is linked with {name}" for name in libraries if not _USUAL_LIBRARIES.fullmatch(name)]
    if replaced := [name for name in defined if _OF_HIP.fullmatch(name)]:
        texts.append(f"takes the place of HIP's functions: {', '.join(replaced)}")
    for what, pattern in _USES:
        found = [name for name in names if pattern.fullmatch(name)]
        if found == ["getenv"] and CK_LOGGING in artifact:
            continue
        texts += [f"{what}: {', '.join(found)}"] if found else []
    return tuple(map(_finding, texts))


def may_bypass_libraries(artifact: bytes) -> bool:
    """Return True if the host's code may have instructions that a listing has to be searched for: bytes that read so
    are in it. Only x86-64 has them."""
    try:
        file = elf.ElfFile(artifact)
        if file.header.machine != elf.EM_X86_64:
            return False
        return any(_ENCODED.search(file.content(one)) for one in file.sections if one.name in _CODE_SECTIONS)
    except elf.ElfError:
        return False


_CODE_SECTIONS = frozenset({".text", ".init", ".fini"})


def listed_findings(listing: str) -> tuple[EmulatedFinding, ...]:
    """Return what the disassembly of the host's code shows."""
    found: dict[str, dict[str, None]] = {}
    for one in _LISTED.findall(listing):
        found.setdefault(_INSTRUCTIONS.get(one, "makes system calls"), {})[" ".join(one.split())] = None
    return tuple(_finding(f"{what} by itself: {', '.join(which)}") for what, which in found.items())


def _finding(text: str) -> EmulatedFinding:
    return EmulatedFinding(
        kind=FindingKind.HOST_CALL,
        message=f"the host's code {text}",
        problem="",
        kernel="",
        workgroup=None,
        wave=None,
        lane=None,
        instruction=None,
        code_address=None,
    )
