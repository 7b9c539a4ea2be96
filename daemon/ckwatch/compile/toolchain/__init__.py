"""Finds, installs and examines compilers: ROCm, CUDA, Composable Kernel and what lies around them."""
