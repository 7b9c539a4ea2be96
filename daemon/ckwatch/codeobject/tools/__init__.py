"""Runs llvm-objdump, llvm-mca and llvm-symbolizer on a code object; `ckwatch.codeobject` reads what they print."""
