"""The language of templates, C++ in Jinja2: pure functions over texts, for the language server.

`syntax` finds tags and blocks, `names` what binds names in one template, `index` what they mean across templates. The
features stand on these, one module each.
"""
