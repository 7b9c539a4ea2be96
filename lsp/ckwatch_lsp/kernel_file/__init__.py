"""The language of kernel files and of `ckwatch.toml`, TOML with known keys: pure functions over texts.

`scanning` reads any text, however broken, into the tables, keys and values of `syntax`. `document` knows which of them
are instances, sweeps and shapes. The features stand on these, one module each.
"""
