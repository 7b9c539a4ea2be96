"""Find, install and examine the compiler: ROCm, Composable Kernel and what lies around them."""
