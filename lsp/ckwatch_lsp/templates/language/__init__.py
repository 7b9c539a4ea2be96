"""The template language, C++ in Jinja2: pure functions over texts.

`lexer` finds tags, `tags` parses one, `syntax` builds the blocks; `names` resolves names within one template, `index`
across templates. Each feature is one module on top of these.
"""
