"""Compiles and timings on other machines, through dask.distributed: clusters, certificates, workers, and the daemon's
side of them. Nothing here is loaded where `[farm]` is not set."""
