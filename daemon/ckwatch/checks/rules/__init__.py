"""Instance rules: what makes Composable Kernel reject an instance, checked in milliseconds.

`expression` is the language of conditions, `rule` the types and the notation of the tables, `gemm_xdl_cshuffle_v3` and
`gemm_xdl_cshuffle_v3_rules` the tables of one device operation. `instances` finds the instances in rendered C++,
`checker` checks them, `candidates` checks other values of a parameter, and `reference` puts rules and parameters into
words.
"""
