"""The artifact store: what compiles produced, found again by what went into them.

    STORE/
      artifacts/ab/KEY/SET/   one entry: products, source, log, dependencies, meta.json (KEY, SET: see `render.tokens`)
      headers/ab/SET.json     a set of headers and the hashes of their contents, shared by the entries that read them
      contents.sqlite         a memo of file hashes; may be deleted at any time
      locks/                  one lock per key that is being compiled
      runs/                   folders of running processes; what a killed run left here is removed by the next

The file system is the truth. An entry appears in one `rename`, complete and flushed, and is never changed after that;
it is trusted when the sizes and hashes in `meta.json` (which is hashed itself) are those of its files. The hashes are
remembered by what `stat` says, so that a look-up reads no file twice. What is worked out from an entry later
(`report.json`, the analysis of its code object) is laid beside its files and goes with it.

What is not in it may be in one that several people share: `shared_store`.
"""
