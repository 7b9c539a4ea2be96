"""The pipeline: config, render, rules, store, compile, diagnostics, for many units at once."""
