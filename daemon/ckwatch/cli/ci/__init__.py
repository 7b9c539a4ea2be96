"""`ckwatch ci`: what a change against a git commit does to kernels, for pipelines."""
