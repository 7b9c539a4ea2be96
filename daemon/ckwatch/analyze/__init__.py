"""Runs llvm-objdump and llvm-mca on a code object; what their output means is in `ckwatch.analysis`."""

from ckwatch.analyze.code_object import AnalysisTools, analyze

__all__ = ["AnalysisTools", "analyze"]
