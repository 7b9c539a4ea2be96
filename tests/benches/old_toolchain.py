"""A second toolchain of a workspace, whose compiler does not know everything that the first one does."""

from __future__ import annotations

from dataclasses import replace

from benches.daemon_bench import TEMPLATE, Bench

OLD_COMPILER = """#!/bin/sh
echo "$*" >> "{folder}/calls"
case "$*" in
*--cuda-host-only*) ;;
*) line=$(grep -n SINCE kernel.hip) && {{
    echo "$PWD/kernel.hip:${{line%%:*}}:1:{{${{line%%:*}}:1-${{line%%:*}}:6}}: error: no member named 'SINCE' [Semantic Issue]" >&2
    exit 1
}} ;;
esac
for last; do :; done
case "$*" in
*-fsyntax-only*) ;;
*-shared*) read -r map < exports.map; name=${{map#*global: }}
    LC_ALL=C exec sed "s/k_xxxxxxxxxxxx/${{name%%;*}}/" "{folder}/so" > "$last" ;;
*) cp "{folder}/object" "$last" ;;
esac
"""
"""Of a ROCm in which the device code of some headers has no SINCE."""

NEW_API = TEMPLATE.replace("int {{ KERNEL", "int SINCE;\nint {{ KERNEL")
"""A template that needs it."""


def with_old_toolchain(bench: Bench) -> Bench:
    """The workspace, checked with a ROCm in `../old`, too."""
    folder = bench.folder / "old"
    (folder / "bin").mkdir(parents=True)
    script = folder / "bin/hipcc"
    script.write_text(OLD_COMPILER.format(folder=bench.folder))
    script.chmod(0o755)
    bench.others[folder] = replace(bench.toolchain, hipcc=script, clangxx=script, identity="an old one")
    bench.write("ckwatch.toml", f'{(bench.root / "ckwatch.toml").read_text()}[toolchain]\nalso = ["../old"]\n')
    return bench
