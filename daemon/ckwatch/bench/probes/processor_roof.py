"""The roof of the processor, for which there is no data sheet: multiply-adds and reads of memory, measured once.

The probe is C of ours for the compiler of the host. Each thread multiplies and adds in registers, then reads memory
that no cache holds. The best of several tries counts, since a roof is what nothing exceeds, by the time that the thread
itself was on a processor: others that are at work lower no roof. It is kept by machine and processor.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from ckwatch.bench.leases import lease
from ckwatch.bench.runtimes import processors
from ckwatch.model.errors import CkwatchError
from ckwatch.model.roofline import ProcessorRoof
from ckwatch.system.durable_files import replace_file
from ckwatch.system.processes import ProcessStartError, run_blocking
from ckwatch.system.user_files import read_file

FILE = "processor-roof.json"
COMPILERS = ("gcc", "clang", "cc")
FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-pthread", "-std=gnu11")
LEAST_BYTES, MOST_BYTES = 2**28, 2**30
TIME_LIMIT_S = 120.0
DEVICE = "cpu"

SOURCE = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __AVX512F__
#define WIDTH 64
#define KEEP(value) __asm__ volatile("" : "+v"(value))
#elif defined(__x86_64__)
#define KEEP(value) __asm__ volatile("" : "+x"(value))
#elif defined(__aarch64__)
#define KEEP(value) __asm__ volatile("" : "+w"(value))
#else
#define KEEP(value)
#endif
#ifdef WIDTH
#elif defined(__AVX__)
#define WIDTH 32
#else
#define WIDTH 16
#endif
#define CHAINS 12
#define ROUNDS 1200000L
#define TRIES 30
typedef float Floats __attribute__((vector_size(WIDTH)));
typedef long Words __attribute__((vector_size(WIDTH)));
static pthread_barrier_t barrier;
static int threads;
static size_t share;
static double best[2];
static pthread_mutex_t summing = PTHREAD_MUTEX_INITIALIZER;
static volatile double sink;
static double used(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}
static void multiply_add(int seed) {
    Floats value[CHAINS], factor, addend;
    for (unsigned i = 0; i < WIDTH / sizeof(float); ++i) { factor[i] = 0.999f; addend[i] = 0.001f * seed; }
    for (int chain = 0; chain < CHAINS; ++chain) value[chain] = addend * (float)chain;
    for (long round = 0; round < ROUNDS; ++round)
        for (int chain = 0; chain < CHAINS; ++chain) {
            value[chain] = value[chain] * factor + addend;
            KEEP(value[chain]);
        }
    float sum = 0;
    for (int chain = 0; chain < CHAINS; ++chain) sum += value[chain][0];
    if (sum == 1234.5f) sink += sum;
}
static void read_all(const Words* from) {
    Words sum[8];
    memset(sum, 0, sizeof sum);
    for (size_t at = 0; at + 8 <= share / WIDTH; at += 8)
        for (int lane = 0; lane < 8; ++lane) sum[lane] ^= from[at + lane];
    long whole = 0;
    for (int lane = 0; lane < 8; ++lane) whole ^= sum[lane][0];
    if (whole == 1) sink += 1;
}
static void* work(void* argument) {
    const int* given = argument;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(given[1], &own);
    sched_setaffinity(0, sizeof own, &own);
    Words* memory = NULL;
    if (posix_memalign((void**)&memory, 4096, share)) abort();
    memset(memory, 1, share);
    double rates[2] = {0, 0};
    for (int try = 0; try < TRIES; ++try)
        for (int part = 0; part < 2; ++part) {
            pthread_barrier_wait(&barrier);
            const double begin = used();
            if (part) read_all(memory); else multiply_add(given[0] + 2);
            const double amount = part ? (double)share : 2.0 * ROUNDS * CHAINS * (WIDTH / sizeof(float));
            const double rate = amount / (used() - begin);
            if (rate > rates[part]) rates[part] = rate;
        }
    pthread_mutex_lock(&summing);
    best[0] += rates[0], best[1] += rates[1];
    pthread_mutex_unlock(&summing);
    return NULL;
}
int main(int count, char** words) {
    threads = count - 2;
    share = strtoull(words[1], NULL, 10) / threads / 4096 * 4096;
    pthread_barrier_init(&barrier, NULL, threads);
    pthread_t* handles = calloc(threads, sizeof *handles);
    int (*given)[2] = calloc(threads, sizeof *given);
    for (int at = 0; at < threads; ++at) {
        given[at][0] = at;
        given[at][1] = atoi(words[2 + at]);
        if (pthread_create(&handles[at], NULL, work, given[at])) return 1;
    }
    for (int at = 0; at < threads; ++at) pthread_join(handles[at], NULL);
    printf("%.6e %.6e\n", best[0], best[1]);
    return 0;
}
"""
"""Values are kept in registers of vectors, or a compiler would sum the chains up."""


def processor_roof(
    folder: Path,
    threads: int | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    measure: Callable[[tuple[int, ...], Mapping[str, str]], tuple[float, float]] | None = None,
) -> ProcessorRoof:
    """The roof of `threads` threads, as timings have them; measured if the file in `folder` does not have it, which
    takes seconds. Blocks. Raises CkwatchError where there is no compiler, or the processor is in use."""
    cpus = processors.choose(threads)
    path, kept = folder / FILE, dict[str, dict[str, float]]()
    with suppress(OSError, ValueError):
        kept = json.loads(read_file(path))
    described = [platform.node(), processors.model_name(), *map(str, cpus), hashlib.sha256(SOURCE.encode()).hexdigest()]
    key = " ".join(described)
    if isinstance(kept, dict) and (known := kept.get(key)) is not None:
        with suppress(TypeError):
            return ProcessorRoof(**known)  # type: ignore[arg-type]  # as it was written below
    taken = lease(DEVICE, f"ckwatch {os.getpid()}: measuring the roof", wait_s=0.0, waiting=lambda _: None)
    if taken is None:
        raise CkwatchError("the processor's roof is not measured while something is timed there", "look again later")
    try:
        flops, bytes_per_s = (measure or _measure)(cpus, environment)
    finally:
        taken.release()
    roof = ProcessorRoof(
        processor=processors.model_name(), threads=len(cpus), tflops=flops / 1e12, bandwidth_tbs=bytes_per_s / 1e12,
        measured_at=time.time(),
    )  # fmt: skip
    with suppress(OSError):  # a store that is read-only: it is measured again
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps((kept if isinstance(kept, dict) else {}) | {key: asdict(roof)}).encode())
    return roof


def _measure(cpus: tuple[int, ...], environment: Mapping[str, str]) -> tuple[float, float]:
    """Compile and run the probe: multiply-adds per second, times two, and bytes per second."""
    found = (shutil.which(name, path=environment.get("PATH")) for name in COMPILERS)
    compiler = next(filter(None, found), None)
    if compiler is None:
        raise CkwatchError("the processor's roof takes a C compiler to measure", "install gcc or clang")
    size = min(max(4 * processors.last_level_cache_bytes(cpus), LEAST_BYTES), MOST_BYTES)
    with TemporaryDirectory(prefix="ckwatch-roof-") as folder:
        source, program = Path(folder, "roof.c"), Path(folder, "roof")
        source.write_text(SOURCE, encoding="utf-8")
        for arguments in ([compiler, *FLAGS, source, "-o", program], [program, str(size), *map(str, cpus)]):
            try:
                done = run_blocking(list(map(str, arguments)), environment=environment, timeout_s=TIME_LIMIT_S)
            except (ProcessStartError, TimeoutError) as error:
                raise CkwatchError(f"the processor's roof cannot be measured: {error}") from error
            if done.returncode:
                raise CkwatchError(f"the processor's roof cannot be measured: {done.stderr.strip()[-400:]}")
        flops, bytes_per_s = map(float, done.stdout.split())
    return flops, bytes_per_s
