"""Mistakes in `ckwatch.toml`, and what is left of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.model.errors import CkwatchError
from ckwatch.workspace.settings import Settings, parse_byte_size
from helpers.rocm_trees import make_program
from helpers.workspaces import KERNEL, unmarked, workspace

ROWS = [
    ("«[workspaces]»".replace("«[", "[«").replace("]»", "»]"), "unknown-key", "did you mean `workspace`?"),
    ("[compile]\n«job» = 3", "unknown-key", "unknown key `job` in [compile]; did you mean `jobs`?"),
    ("[compile]\njobs = «0»", "out-of-range", "should be greater than or equal to 1"),
    ("[compile]\njobs = «true»", "wrong-type", "`jobs` must be an integer, not true"),
    ('[compile]\nflags = "«-O3»"'.replace('"«', '«"').replace('»"', '"»'), "wrong-type", "`flags` must be an array"),
    ('[compile]\nflags = ["-O2", «"-mllvm"»]', "flag-value", "`-mllvm` needs a value: the next element"),
    (
        '[compile]\nflags = ["-mllvm", «"-amdgpu-early-inline-all=true"», "-mllvm", "-amdgpu-function-calls=false"]',
        "endless-flags",
        "keeps the compiles of some kernels from ending",
    ),
    ('[compile]\nflags = ["-I", «"nowhere"»]', "missing-folder", "there is no folder /"),
    ('[compile]\nflags = [«"-Lnowhere"»]', "missing-folder", "/nowhere"),
    ('[bench]\ndevice = «"gpu box/hip:0"»', "unknown-device", "gpu-box/hip:0 for that of another machine"),
    ('[bench]\ndevice = «"gpu-box/auto"»', "unknown-device", "is not a device"),
    ("[compile]\ntimeout_s = «-1»", "out-of-range", "greater than 0"),
    ("[compile]\ntimeout_s = «inf»", "wrong-type", "a finite number"),
    ('[compile.defines]\n«A-B» = "1"', "invalid-macro", "`A-B` is not the name of a preprocessor macro"),
    ("[compile.defines]\nA = «[1]»", "wrong-type", "a macro's value is a string, an integer, true or false"),
    ("compile = «1»", "wrong-type", "`compile` must be a table"),
    ('[workspace]\narchs = ["gfx942", «"gfx94"»]', "unknown-arch", "unknown arch `gfx94`; did you mean"),
    ('[workspace]\narchs = [«"host"»]', "unknown-arch", "`host` is the arch of *.cpp.j2 templates only"),
    ('[workspace]\ntemplates = ["templates", «"nowhere"»]', "missing-folder", "there is no folder /"),
    ('[workspace]\nkernels = ["**/*.kernel.toml", «"../x.toml"»]', "invalid-pattern", "stay below its folder"),
    (f'[toolchain]\nck = «"{"x" * 5000}"»', "missing-folder", "there is no folder /"),
    (f'[workspace]\ntemplates = ["templates", «"{"x" * 5000}"»]', "missing-folder", "there is no folder /"),
    ('[toolchain]\nrocm = «"rocm"»', "missing-folder", "there is no folder /"),
    ('[toolchain]\nclangd = «"nowhere/clangd"»', "missing-program", "/nowhere/clangd"),
    ('[toolchain]\nclangd = «"ckwatch.toml"»', "missing-program", "there is no program /"),
    ('[toolchain]\nclangd = «"."»', "missing-program", "there is no program /"),
    ('[store]\nsize_limit_bytes = «"20 Gibs"»', "invalid-size", "`20 Gibs` is not a size"),
    (f'[store]\nsize_limit_bytes = «"{"9" * 400} KB"»', "invalid-size", "the size has 400 digits; at most 8 EiB"),
    ("[store]\nsize_limit_bytes = «1.5»", "wrong-type", "not the number 1.5"),
    ('[farm]\nscheduler = «"tcp://10.0.0.1:8786"»', "unprotected-address", "can run programs on all of its workers"),
    ('[farm]\nscheduler = «"box:8786"»', "invalid-address", "write tls://HOST:8786"),
    ('[farm]\nscheduler = "tls://a:1"\ncluster = «"local"»\n', "two-farms", "leave one of them out"),
    ('[farm]\ncluster = «"ssh"»\n', "no-hosts", "one needs the other"),
    ('[farm]\nhosts = «["a"]»\n', "no-hosts", "one needs the other"),
    ('[farm]\ncluster = "ssh"\nhosts = ["a", «"-oProxyCommand=x"»]\n', "invalid-argument", "not the name of a machine"),
    ('[farm]\ncluster = "ssh"\nhosts = ["a"]\nmost_workers = «4»\n', "few-workers", "leave `most_workers` out"),
    ('[farm]\ncluster = "local"\nworkers = 3\nmost_workers = «2»\n', "few-workers", "is less than `workers` = 3"),
    ('[farm]\ncluster = «"slrum"»\n', "unknown-value", "did you mean `slurm`?"),
    ("[farm]\nworkers = «0»\n", "out-of-range", "greater than or equal to 1"),
    ('[farm]\n«clster» = "local"\nworkers = 2\n', "unknown-key", "did you mean `cluster`?"),
    ("[farm]\ncluster = «3»\n", "wrong-type", "one of local, ssh"),
    ('[farm]\nscheduler = «"tls://a:99999"»\n', "invalid-address", "write tls://HOST:8786"),
    ('[farm]\nscheduler = "tls://a:1"\n«workers» = 4\n', "no-cluster", "`workers` is of a `cluster`"),
    ('[farm]\ncluster = "local"\ncertificates = «"nowhere"»\n', "no-certificates", "`ckwatch farm certificates`"),
    ("[limits]\ninstances = «0»", "out-of-range", "greater than or equal to 1"),
    ("[render]\ntime_limit_s = 1.0\n«time_limit_s» = 2.0", "duplicate-key", "`time_limit_s` is given twice"),
]


@pytest.mark.parametrize(("marked", "code", "message"), ROWS)
def test_mistakes(tmp_path: Path, marked: str, code: str, message: str) -> None:
    text, expected = unmarked(marked, str(tmp_path / "ckwatch.toml"))
    found = workspace(tmp_path, {"ckwatch.toml": text, "k.kernel.toml": KERNEL})
    (diagnostic,) = found.diagnostics
    assert diagnostic.code == f"workspace/{code}"
    assert message in diagnostic.message
    assert diagnostic.span == expected
    assert [kernel.name for kernel in found.kernels] == ["k"]


@pytest.mark.parametrize(
    ("entry", "code", "message"),
    [
        ('""', "invalid-argument", "a toolchain is a name or a folder, and not empty"),
        ('" "', "invalid-argument", "a toolchain is a name or a folder, and not empty"),
        ("7", "wrong-type", "element 2 of `also` must be a string, not the integer 7"),
        ('["rocm-6.4"]', "wrong-type", "element 2 of `also` must be a string, not an array"),
    ],
)
def test_toolchains_beside_a_mistake_are_kept(tmp_path: Path, entry: str, code: str, message: str) -> None:
    marked = f'[toolchain]\nalso = ["rocm-6.4", «{entry}», "ck-1.1.0", "{{}}"]\n[compile]\njobs = 3\n'
    text, expected = unmarked(marked, str(tmp_path / "ckwatch.toml"))
    found = workspace(tmp_path, {"ckwatch.toml": text, "k.kernel.toml": KERNEL})
    (diagnostic,) = found.diagnostics
    assert (diagnostic.code, diagnostic.message, diagnostic.span) == (f"workspace/{code}", message, expected)
    assert found.settings.toolchain.also == ["rocm-6.4", "ck-1.1.0", "{}"]
    places = [text.splitlines()[1][span.start.column : span.end.column] for span in found.also]
    assert places == ['"rocm-6.4"', '"ck-1.1.0"', '"{}"']
    assert found.settings.compile.jobs == 3


def test_several_toolchains_with_mistakes_are_left_out(tmp_path: Path) -> None:
    text = '[toolchain]\nalso = ["", "ck-1.1.0", 3, "rocm-6.4", ""]\nalso_build = 1\n'
    found = workspace(tmp_path, {"ckwatch.toml": text, "k.kernel.toml": KERNEL})
    assert len(found.diagnostics) == 4
    assert found.settings.toolchain.also == ["ck-1.1.0", "rocm-6.4"]
    assert [span.start.column for span in found.also] == [12, 27]


def test_keys_beside_a_mistake_are_kept(tmp_path: Path) -> None:
    text = '[compile]\njobs = "four"\ntimeout_s = 5\n[workspace]\narchs = ["gfx90a"]\n'
    settings = workspace(tmp_path, {"ckwatch.toml": text, "k.kernel.toml": KERNEL}).settings
    assert (settings.compile.jobs, settings.compile.timeout_s) == (None, 5.0)
    assert settings.workspace.archs == ["gfx90a"]


def test_paths_are_absolute(tmp_path: Path) -> None:
    root = tmp_path / "mit Leerzeichen é"
    text = '[workspace]\ntemplates = ["templates"]\n[store]\nfolder = "~/x"\n[toolchain]\nck = "ck"\nclangd = "bin/clangd"\n'
    make_program(root / "bin/clangd")
    found = workspace(root, {"ckwatch.toml": text, "k.kernel.toml": KERNEL, "ck/x": ""})
    assert found.diagnostics == ()
    assert found.settings.toolchain.ck == root / "ck"
    assert found.settings.toolchain.clangd == root / "bin/clangd"
    assert found.settings.store.folder == Path.home() / "x"
    assert found.template_folders[0] == root / "templates"


def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    assert workspace(tmp_path, {"k.kernel.toml": KERNEL}).settings == Settings()


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("1 KiB", 1024), ("20 GiB", 20 * 2**30), ("1.5 MiB", 1572864), ("2 gb", 2 * 10**9), ("3TB", 3 * 10**12)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_byte_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1 GiBs", "1,5 GiB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(CkwatchError, match="is not a size"):
        parse_byte_size(text)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('[workspace]\narchs = ["gfx942", "gfx1251"]\n', {"gfx942": (2, 10), "gfx1251": (2, 20)}),
        ("", {}),
        ('[workspace]\narchs = ["gfx942", "gfx94"]\n', {}),
    ],
)
def test_archs_have_places(tmp_path: Path, text: str, places: dict[str, tuple[int, int]]) -> None:
    found = workspace(tmp_path, {"ckwatch.toml": text, "k.kernel.toml": KERNEL}).arch_spans
    assert {arch: (span.start.line + 1, span.start.column + 1) for arch, span in found.items()} == places


def test_flags_have_places(tmp_path: Path) -> None:
    text = '[compile]\nflags = ["-O2", "-Ikernels"]\n[compile.defines]\nA = 1\nB = true\n'
    found = workspace(tmp_path, {"ckwatch.toml": text, "kernels/k.kernel.toml": 'flags = ["-g"]\n' + KERNEL})
    lines = [(flag.text, flag.span.start.line + 1, flag.span.start.column + 1) for flag in found.flags]
    assert lines == [("-O2", 2, 10), (f"-I{tmp_path}/kernels", 2, 17), ("-DA=1", 4, 1), ("-DB", 5, 1)]
    (kernel,) = found.kernels
    assert [(span.start.line, span.start.column) for span in kernel.flag_spans] == [(0, 9)]
