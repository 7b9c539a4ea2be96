# Two commands do all the set-up on a bare Debian or Ubuntu with Python >= 3.11, gcc and make:
#   make demo    builds the Composable Kernel examples with a real hipcc and shows errors at their place
#   make test    linters, types and every test but those of editors, which `make test-editors` runs; CI runs both

PYTHON ?= python3
BIN := .venv/bin

PROGRAMS ?=
WITHIN ?=

.PHONY: demo test test-editors lint fast-test toolchain bench clean

demo: toolchain
	@$(BIN)/python tools/demo.py

# Compilers take every core: the tests that need them come alone.
test: lint toolchain
	$(BIN)/python tools/run_tests.py
	$(BIN)/python -m pytest -q -m "(toolchain or network) and not editors"

# Neovim, VS Code, Helix and Emacs on the example; what is not there is installed into the user's cache.
# WITHIN=SECONDS: those that there is time for.
test-editors: toolchain
	$(BIN)/python -m tools.run_editor_tests $(if $(WITHIN),--within $(WITHIN))

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The tests that need neither compiler nor network; seconds.
fast-test: .venv/.installed
	$(BIN)/python tools/run_tests.py

# A ROCm that is already there is used as it is; otherwise a private one is installed into the user's cache.
toolchain: .venv/.installed
	@$(BIN)/ckwatch doctor --quiet || $(BIN)/ckwatch toolchain install

# Hours for all; `make bench PROGRAMS="first_error idle"` runs some. What is measured against is fetched when it is needed.
bench: toolchain
	$(BIN)/python -m benchmarks $(PROGRAMS)

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/.installed: pyproject.toml constraints.txt tools/create_environment.py
	$(PYTHON) tools/create_environment.py
