"""Calls of a shared object to the host beside HIP, by the names that it takes from libraries: no kernel needs to read
files or the environment, to look for other code, to start something, or to know the time.

These are names alone. Code that makes system calls by itself, or has a library's code in itself, does not show.
"""

from __future__ import annotations

import re

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


def host_findings(artifact: bytes) -> tuple[EmulatedFinding, ...]:
    """Return what a judge has to know of the host's code of a shared object; nothing of a damaged one, which cannot be
    loaded either."""
    try:
        names, libraries = elf.imported_symbols(artifact), elf.needed_libraries(artifact)
    except elf.ElfError:
        return ()
    texts = [f"is linked with {name}" for name in libraries if not _USUAL_LIBRARIES.fullmatch(name)]
    for what, pattern in _USES:
        found = [name for name in names if pattern.fullmatch(name)]
        if found == ["getenv"] and CK_LOGGING in artifact:
            continue
        texts += [f"{what}: {', '.join(found)}"] if found else []
    return tuple(
        EmulatedFinding(
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
        for text in texts
    )
