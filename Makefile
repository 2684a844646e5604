# What a newcomer needs: make, and Python 3.11 or newer. Everything else goes into .venv.
#
#   make demo            watch one session run, with no key and no network
#   make test            run the tests; more for pytest: make test ARGS="-k boundary"
#   make check           lint, formatting, types
#   make bench           measure; one only: make bench BENCHMARKS=bench/NAME.py
#   make venv            prepare .venv for work on Perdure
#   make clean           remove .venv and what the tools left behind
#
# Another Python: make demo PYTHON=python3.13

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

BENCHMARKS := $(filter-out bench/_%,$(wildcard bench/*.py))

CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11 python
RECENT := import sys; sys.exit(sys.version_info < (3, 11))
# Each candidate is run, not only looked up: a version manager's shim may stand for nothing.
PYTHON ?= $(shell for each in $(CANDIDATES); do \
	"$$each" -c '$(RECENT)' >/dev/null 2>&1 && { echo "$$each"; break; }; done)

.PHONY: help demo test check bench venv clean

help:
	@sed -n 's/^#   //p' Makefile

demo: $(VENV)/.runtime
	@$(BIN)/python -m perdure demo

test: $(VENV)/.test
	@$(BIN)/python -m pytest $(ARGS)

# Pyright and the Node.js it runs on are both wheels, so nothing is fetched when it starts.
check: $(VENV)/.dev
	@failed=0; \
	$(BIN)/python -m ruff check . || failed=1; \
	$(BIN)/python -m ruff format --check . || failed=1; \
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 \
		$(BIN)/python -m pyright --pythonpath $(BIN)/python || failed=1; \
	exit $$failed

bench: $(VENV)/.test
	@for each in $(BENCHMARKS); do \
		echo; echo "$$each"; $(BIN)/python "$$each" || exit 1; \
	done

venv: $(VENV)/.dev

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis dist build
	find . -name __pycache__ -prune -exec rm -rf {} +

# The environment is made anew whenever pyproject.toml changes, so that it never holds more than
# the project asks for. The demo needs the runtime only; each stamp below adds to the one above.
$(VENV)/.runtime: pyproject.toml
	@python="$(PYTHON)"; \
	if ! "$${python:-false}" -c '$(RECENT)' >/dev/null 2>&1; then \
		echo "Perdure needs Python 3.11 or newer and found none on PATH: install it," \
			"or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; \
	elif ! "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then \
		echo "$$python cannot make a virtual environment: install its venv module" \
			"(on Debian and Ubuntu: apt-get install python3-venv)." >&2; exit 1; \
	fi; \
	echo "Installing Perdure into $(VENV) (once) ..."; \
	"$$python" -m venv --clear $(VENV)
	@$(PIP) install --editable .
	@touch $@

# Dependency groups need pip 25.1; a fresh environment brings the pip of its Python.
$(VENV)/.test: $(VENV)/.runtime
	@echo "Installing the test tools ..."
	@$(PIP) install --upgrade 'pip>=25.1'
	@$(PIP) install --group test
	@touch $@

$(VENV)/.dev: $(VENV)/.test
	@echo "Installing the checkers ..."
	@$(PIP) install --group dev
	@touch $@
