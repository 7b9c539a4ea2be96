"""The language of kernel files and `ckwatch.toml`, TOML with known keys: pure functions over texts.

`ckwatch.workspace.toml` reads any text, `document` finds instances, sweeps and shapes in it. Each feature is one
module on top of these.
"""
