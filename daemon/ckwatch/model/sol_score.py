"""The SOL score: how much of the gap between a baseline and the speed of light a kernel closes."""

from __future__ import annotations


def sol_score(time_us: float, baseline_us: float, bound_us: float) -> float | None:
    """The score of NVIDIA's SOL-ExecBench: S = 1 / (1 + (T_k − T_SOL) / (T_b − T_SOL)).

    T_k is the kernel's time, T_b the baseline's, and T_SOL the bound ("speed of light"), all in the same unit. A kernel
    as fast as its baseline has 0.5, one at the bound 1, and one that is twice as far from it as the baseline a third.
    None where it is not defined: the baseline at the bound or below it, the kernel below it.

    Source: "SOL-ExecBench: Speed-of-Light Benchmarking for Real-World GPU Kernels Against Hardware Limits",
    arXiv:2603.19173, section 4.3, and `src/sol_execbench/sol_score.py` of https://github.com/NVIDIA/SOL-ExecBench.
    There the bound is SOLAR's; here it is the roofline's (`ckwatch.model.roofline`).
    """
    if bound_us <= 0 or baseline_us <= bound_us or time_us < bound_us:
        return None
    return 1 / (1 + (time_us - bound_us) / (baseline_us - bound_us))
