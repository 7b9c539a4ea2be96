"""What the keys of `ckwatch.toml` and of kernel files mean, in one or two lines; `docs/workspace.md` says more.

Paths are those of `ckwatch.wire.language.Key`.
"""

from __future__ import annotations

from collections.abc import Mapping

SETTINGS: Mapping[str, str] = {
    "workspace": "where templates and kernel files are, and what to compile for",
    "workspace.templates": (
        "where templates are looked for, in this order; the built-in templates come last; by default `templates`"
    ),
    "workspace.kernels": "which files are kernel files",
    "workspace.kernel_folders": "more folders to search for kernel files; links that lead elsewhere are not followed",
    "workspace.archs": "what units are compiled for, unless a kernel file says so itself",
    "toolchain": "folders that win over what discovery finds",
    "toolchain.rocm": "the ROCm tree",
    "toolchain.ck": "the folder that holds `ck/`",
    "toolchain.ck_tile": "the folder that holds `ck_tile/`",
    "compile": "how units are compiled",
    "compile.flags": "added to the compiler's flags",
    "compile.defines": "macros: a string, an integer, or `true` for one without a value",
    "compile.defines.*": "what the macro stands for; `true`: it is defined without a value",
    "compile.jobs": "compiler processes at one time; fewer run when memory would not do",
    "compile.precompile": "make precompiled headers in the background, and use them",
    "compile.nice": "how far compilers stand back for other programs, editors above all; 0: not at all",
    "compile.timeout_s": "after which a compiler is stopped",
    "compile.header_warnings": "show warnings that lie in headers",
    "render": "bounds of one render",
    "render.time_limit_s": "after which a template is stopped",
    "render.output_limit_bytes": "most that a template may print",
    "store": "where artifacts are kept",
    "store.folder": "where artifacts are kept",
    "store.size_limit_bytes": "above which the artifacts unused for longest are dropped",
    "daemon": "the background process",
    "daemon.build": "what is compiled without being asked: what was edited, is looked at or asked for; or all",
    "daemon.idle_exit_s": "after so long without clients and work the daemon ends; 0 for never",
    "daemon.settle_ms": "how long a file must be quiet before a change of it counts",
    "daemon.poll": "look at files again and again, for file systems that send no events",
    "daemon.watcher": (
        'what tells of changes; `"watchfiles"` is slower, and is used in any case where there is no inotify'
    ),
    "limits": "how much a kernel file may ask for",
    "limits.instances": "most instances of one kernel file",
    "limits.combinations": "most steps in looking for the combinations that meet a sweep's conditions",
    "bench": "how units are timed",
    "bench.device": "`auto` takes the best that fits; `hip:N`, `cuda:N`, `cpu`, or a PCI address",
    "bench.when": 'time by itself after builds, or on `"request"` only',
    "bench.launcher": (
        "an argument list in front of the worker, run in the workspace's folder: "
        '`["ssh", "gpu-box"]`, `["srun", "--gres=gpu:1"]`'
    ),
    "bench.worker": ('the worker\'s command; behind a launcher `["python3", "-P", "-m", "ckwatch.bench.worker"]`'),
    "bench.caches": ("what the caches hold when a launch begins: nothing of the operands, or what the last one left"),
    "bench.budget_s": "measuring of one instance on one shape with one cache state, at the most",
    "bench.save_budget_s": "device time that one save may take",
    "bench.relative_error": "standard error of the median at which a measurement ends",
    "bench.regression": "how much slower than before, or than the baseline, is a warning",
    "bench.time_limit_s": "after which a worker is ended",
    "bench.lease_wait_s": "how long to wait for a device that somebody else uses",
    "bench.shared": "measure also beside other processes on the device",
    "bench.threads": "threads of host kernels",
    "bench.library": "time the vendor's GEMM beside the kernel",
}

_OPERAND = {
    "dtype": "the element type",
    "layout": "row- or column-major",
    "same_as": "the same buffer as another input's: given twice, it is one argument",
}

_TENSOR = {
    **_OPERAND,
    "name": "the name in templates and in the C function",
    "sizes": "the extent of each axis: integers or expressions of the sizes with `+ - * / % ( )`",
    "strides": "of each axis, as sizes are written; without them there are no gaps",
    "absent": "the template names this input, this kernel does not have it",
}


def _of(table: str, docs: Mapping[str, str], *names: str) -> dict[str, str]:
    return {f"{table}.{name}": docs[name] for name in names}


_SCALE = "one value (`tensor`), or one per row of X and one per column of W (`row`); equal for both scales"
_SCALES = "scales of X and W, both or none"

KERNEL_FILE: Mapping[str, str] = {
    "name": "unique in the workspace; by default the file's name without `.kernel.toml`",
    "template": "`*.hip.j2`, `*.cu.j2` (GPU) or `*.cpp.j2` (host)",
    "archs": 'what to compile for; by default what the workspace says, and `["host"]` for `*.cpp.j2`',
    "flags": "added to the compiler's flags",
    "operation": "what the kernel computes: tensors, sizes and arguments of its C function",
    "operation.kind": (
        "`gemm` is Y = activation(alpha · (inv_scale_x · inv_scale_w · X·W) + beta · Bias), `custom` anything else"
    ),
    "operation.a": "X, M×K",
    **_of("operation.a", _OPERAND, "dtype", "layout", "same_as"),
    "operation.b": "W, K×N",
    **_of("operation.b", _OPERAND, "dtype", "layout", "same_as"),
    "operation.c": "Y, M×N",
    **_of("operation.c", _OPERAND, "dtype", "layout"),
    "operation.bias": "one value per column of Y (`row`), per row of Y (`col`), or with `full` an M×N matrix",
    **_of("operation.bias", _OPERAND, "dtype", "layout", "same_as"),
    "operation.bias.full": "an M×N matrix instead of a vector",
    "operation.scale_a": _SCALES,
    "operation.scale_a.dtype": _OPERAND["dtype"],
    "operation.scale_a.per": _SCALE,
    "operation.scale_b": _SCALES,
    "operation.scale_b.dtype": _OPERAND["dtype"],
    "operation.scale_b.per": _SCALE,
    "operation.accumulator": "the type of sums; by default f32, i32 for i8, f64 for f64",
    "operation.alpha": "factor of the product",
    "operation.beta": "factor of the bias",
    "operation.activation": "applied to the sum",
    "operation.split_k": "whether kBatch may be above 1; by default true if a shape has such a kBatch",
    "operation.input_reorder": "order of the inputs in the C function",
    "operation.settings": "handed to the template in `operation.settings`",
    "operation.settings.*": "handed to the template in `operation.settings`",
    "operation.sizes": "the `int32_t` size arguments",
    "operation.runtime": "runtime arguments and their C types",
    "operation.runtime.*": "the C type of this runtime argument",
    "operation.input": "a tensor that is read",
    **_of("operation.input", _TENSOR, "name", "dtype", "layout", "sizes", "strides", "same_as", "absent"),
    "operation.output": "a tensor that is written",
    **_of("operation.output", _TENSOR, "name", "dtype", "layout", "sizes", "strides"),
    "shape": "sizes that the kernel is timed on",
    "shape.name": "by default the sizes, `4096x4096x64`",
    "shape.M": "rows of X and Y",
    "shape.N": "columns of W and Y",
    "shape.K": "columns of X, rows of W",
    "shape.LDA": "leading dimension of X; by default without gaps",
    "shape.LDB": "leading dimension of W; by default without gaps",
    "shape.LDC": "leading dimension of Y; by default without gaps",
    "shape.LDD": "leading dimension of a full Bias; 0 repeats one row",
    "shape.kBatch": "slices of K that are multiplied side by side",
    "shape.*": "a value for each size argument and each runtime argument of the operation",
    "defaults": "template parameters of all instances",
    "defaults.*": "a template parameter: an integer, a number, true or false, a string, or an array of integers",
    "instance": "one set of template parameters; its own win over `[defaults]`",
    "instance.name": "a unit is called `KERNEL/INSTANCE@ARCH`",
    "instance.*": "a template parameter: an integer, a number, true or false, a string, or an array of integers",
    "sweep": "every combination of parameter values that meets the conditions, one instance each",
    "sweep.name": "what the instances' names begin with",
    "sweep.base": "an `[[instance]]` whose parameters to start from",
    "sweep.where": "conditions, all of which must hold: Jinja expressions over the parameters",
    "sweep.parameters": "an array gives the values to take, anything else one fixed value",
    "sweep.parameters.*": "an array gives the values to take, anything else one fixed value",
}
