"""Compiler output becomes messages at template positions.

`clang_text` reads what clang, lld and the driver print; `mapping` places the messages through the source map; `fold`
joins the same message of several units; `rebase` moves a cached log's places to a text that differs in whitespace;
`terminal` and `json_form` show the result. Everything here is a function of its arguments: source lines come through
callables, and nothing is read or run.
"""
