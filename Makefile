# Two commands do all the set-up on a bare Debian or Ubuntu with Python >= 3.11, gcc and make:
#   make demo    builds the Composable Kernel examples with a real hipcc and shows errors at their place
#   make test    linters, types and every test but those of editors and of the page, which `make test-editors` and
#                `make test-web` run; CI runs all

PYTHON ?= python3
BIN := .venv/bin

PROGRAMS ?=
WITHIN ?=
CORES ?= 7
CACHE_MIB ?= 260
STEPS ?=
WORDS ?=
MINUTES ?= 10
PARTS ?=
PACKAGES ?=
OPTIONS ?=

.PHONY: demo test test-elsewhere test-editors test-web lint fast-test mistakes planted-bugs random-programs verify-shipped torture toolchain bench docs dist lock clean

demo: toolchain
	@$(BIN)/python tools/demo.py

# Linters beside one pool of tests. Whatever fails, the rest runs; at the end stands what failed.
test: .venv/.installed
	$(BIN)/python tools/run_tests.py

# The same as if this machine had CORES processors and CACHE_MIB of last-level cache.
test-elsewhere: .venv/.installed
	$(BIN)/python tests/other_machine --cores $(CORES) --cache-mib $(CACHE_MIB) -- $(BIN)/python tools/run_tests.py $(STEPS)

# Neovim, VS Code, Helix and Emacs on the example; what is not there is installed into the user's cache.
# WITHIN=SECONDS: those that there is time for.
test-editors: toolchain
	$(BIN)/python -m tools.run_editor_tests $(if $(WITHIN),--within $(WITHIN))

# The page of `ckwatch web` in Chromium, which is installed if it is not there: as root by apt, else into the user's cache.
test-web: toolchain
	$(BIN)/python tools/run_tests.py web

lint: .venv/.installed
	$(BIN)/python tools/run_tests.py lint

# The tests that need neither compiler nor network.
fast-test: .venv/.installed
	$(BIN)/python tools/run_tests.py without-compilers

# Plants every mistake of the corpus, and prints how many messages have the right place and cause; minutes.
# WORDS="jinja linker": those that have one of these words in their kind or name.
mistakes: toolchain
	PYTHONPATH=tests $(BIN)/python -m mistakes $(WORDS)

# Builds each planted bug and its correct twin with hipcc, verifies them on the emulator, runs the programs of planted bugs
# for four archs, and prints what was found where; minutes. WORDS="barrier CK": those that have one of these words in
# their kind or name.
planted-bugs: toolchain
	PYTHONPATH=tests $(BIN)/python -m planted_bugs $(WORDS)

# Compiles random kernels for the device and, as the same text, for the host, and compares every byte that they write; a
# difference is printed and made small. OPTIONS="--count 2000 --arch gfx942 --level O0 --seed 7": how many and which.
random-programs: toolchain
	PYTHONPATH=tests $(BIN)/python -m random_programs $(OPTIONS)

# Verifies the shipped HIP and Composable Kernel units for gfx942 and gfx950 on the emulator, and prints how many problems
# are right, refused and wrong; hours for all. WORDS="v3 f8": those that have one of these words in their name.
verify-shipped: toolchain
	$(BIN)/python -m benchmarks.verification $(WORDS)

# Kills, fuzzes and attacks ckwatch at random for MINUTES (10); PARTS="kill lsp": only these. What is found is saved with
# the command that plays it again. `make test` plays a few rounds of each part.
torture: .venv/.installed
	PYTHONPATH=tests $(BIN)/python -m torture --minutes $(MINUTES) $(PARTS)

# A ROCm that is already there is used as it is; otherwise a private one is installed into the user's cache.
toolchain: .venv/.installed
	@$(BIN)/ckwatch doctor --quiet || $(BIN)/ckwatch toolchain install

# Hours for all; `make bench PROGRAMS="first_error idle"` runs some. What is measured against is fetched when it is needed.
bench: toolchain
	$(BIN)/python -m benchmarks $(PROGRAMS)

# The documentation site in build/site, without a network; every link and anchor is checked.
docs: .venv/.installed
	$(BIN)/python tools/run_tests.py docs

# Builds the wheel and the sdist into dist/, checks them, and tries both in environments of their own.
dist: .venv/.installed
	$(BIN)/python tools/release.py

# Renews pylock.toml; PACKAGES="ruff mypy": only these.
lock: .venv/.installed
	UV_CUSTOM_COMPILE_COMMAND="make lock" UV_DEFAULT_INDEX=https://pypi.org/simple $(BIN)/uv pip compile --quiet \
	  --universal --python-version 3.11 --group dev $(addprefix --extra ,amd farm mcp plot shared web) \
	  $(if $(PACKAGES),$(addprefix --upgrade-package ,$(PACKAGES)),--upgrade) --output-file pylock.toml pyproject.toml

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/.installed: pyproject.toml pylock.toml tools/create_environment.py
	$(PYTHON) tools/create_environment.py
