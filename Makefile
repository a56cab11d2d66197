# Everything that a developer runs. A target sets up what it needs the first time; after that nothing touches the network.
# Stamps lie in .venv and .tools and are named relatively, because make cannot handle spaces in absolute paths.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
ARGS ?=
export PYTHON
export CHROMIUM
export REDIS_SERVER
export PROMTOOL
export POSTGRES16
export PGBOUNCER
export S3_SERVER
export NGINX
export CADDY
# The Node.js of the bridge's tests, where the machine has none that is new enough.
export PATH := $(CURDIR)/.tools/bin:$(PATH)

BIN := .venv/bin
# Compiled at once: children may not write, so each would compile for itself.
INSTALL := scripts/uv.sh pip install --quiet --compile-bytecode --python $(BIN)/python
# An environment that was copied or moved with its folder would run the code of the old place: build it anew.
ifneq ($(wildcard .venv/.made-in),)
ifneq ($(shell cat .venv/.made-in),$(CURDIR))
$(shell rm -f .venv/.made-in .venv/.stamp-*)
endif
endif

# A test run starts hundreds of processes, which would each compile all code again.
unexport PYTHONDONTWRITEBYTECODE

# The whole suite runs in four processes, which keep two cores busy: tests wait for others a good part of their time.
# What was chosen with ARGS runs in one, unless they say otherwise.
WORKERS ?= 4
SHARED := -n $(WORKERS) --dist worksteal --durations=25 --durations-min=10
TESTED_WITH := .venv/.stamp-dev .venv/.stamp-models .tools/.stamp-js .tools/.stamp-bridge .tools/.stamp-pi .tools/browser .tools/redis \
	.tools/promtool .tools/postgres16 .tools/pgbouncer .tools/s3 .tools/proxies .tools/clients .tools/litellm/.stamp

.PHONY: help up samples docs screenshots setup test test-quick check format bench bench-engine bench-media bench-quality bench-conversations bench-inputs bench-video bench-library bench-load bench-driver bench-outside bench-suite chaos-machines mutants spec spec-json spec-record lock clean

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 22

up: .venv/.stamp-models .tools/.stamp-js ## server, embedded database and workers, with data in ./data or $MEDIAMILL_DATA
	@MEDIAMILL_DATA="$${MEDIAMILL_DATA:-./data}" exec $(BIN)/mediamill up $(ARGS)

samples: .venv/.stamp-models ## the sample files turned into text; ARGS=--json for scripts
	@MEDIAMILL_DATA="$${MEDIAMILL_DATA:-./data}" $(BIN)/mediamill process samples $(ARGS)

setup: $(TESTED_WITH) ## all that the tests need; after it they run without a network
	@true

test: $(TESTED_WITH) ## every test; ARGS='-k name' chooses
	@$(BIN)/pytest $(or $(ARGS),$(SHARED))

test-quick: $(TESTED_WITH) ## the tests that need no browser, no killed processes, no media: a few minutes
	@$(BIN)/pytest $(SHARED) --quick $(ARGS)

docs: .venv/.stamp-dev .tools/.stamp-js ## the site of docs/, in build/site; whatever is broken or in no list stops it
	@$(BIN)/python scripts/site.py

screenshots: $(TESTED_WITH) ## the pictures of the docs, taken anew by the tests; ARGS='video chat' takes only these
	@$(BIN)/python scripts/pictures.py $(ARGS)

check: .venv/.stamp-dev ## ruff, mypy, the import contract
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: .venv/.stamp-dev ## rewrites the code in the house's format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: bench-engine bench-media bench-quality bench-conversations bench-inputs bench-video bench-library ## every benchmark

bench-engine: .venv/.stamp-bench ## the engine beside its peers and the raw limit; writes bench/results/engine.json
	@$(BIN)/python -m bench.engine $(ARGS)

bench-media: .venv/.stamp-bench .venv/.stamp-models ## media work beside its peers; writes bench/results/media.json
	@$(BIN)/python -m bench.media $(ARGS)

bench-conversations: .venv/.stamp-bench ## text behind slow media, bursts, fairness, memory; writes bench/results/conversations.json
	@$(BIN)/python -m bench.conversations $(ARGS)

bench-inputs: .venv/.stamp-bench ## messages with images, ten of 50 MiB at once; writes bench/results/inputs.json
	@$(BIN)/python -m bench.inputs $(ARGS)

bench-video: .venv/.stamp-bench ## the ladder beside ffmpeg, resuming, checkpoints, uploads; writes bench/results/video.json
	@$(BIN)/python -m bench.video $(ARGS)

# Needs 40 GB of disk for a while: catalogues of two million assets, one of them copied.
bench-library: .venv/.stamp-bench ## two million assets, erasing, scans, images; writes bench/results/library.json
	@$(BIN)/python -m bench.library $(ARGS)

# Twenty minutes, and nothing else should run. Not part of `make bench`, which takes hours as it is.
bench-load: .venv/.stamp-bench ## ten minutes at three quarters of the capacity: what grows? Writes bench/results/load.json
	@$(BIN)/python -m bench.load $(ARGS)

bench-driver: .venv/.stamp-bench ## asyncpg beside psycopg, ARGS=9 rounds; writes bench/results/driver.json
	@$(BIN)/python -m bench.driver $(ARGS)

# Nothing else should run: it tries every port of this machine, and measures how long an answer takes.
bench-outside: .venv/.stamp-bench ## the ports that it opens, and answers beside slow clients; writes bench/results/outside.json
	@$(BIN)/python -m bench.outside $(ARGS)

bench-suite: $(TESTED_WITH) ## ARGS='--runs 5 --load 8': the whole suite in a row, beside load; adds to bench/results/suite.json
	@$(BIN)/python -m bench.suite $(ARGS)

# Needs root: its machines are network namespaces. About half an hour; ARGS='--faults 12 --modes hybrid' is a small run.
chaos-machines: .venv/.stamp-bench .venv/.stamp-models .tools/redis ## three machines, 200 faults: lost, twice, stuck? Writes bench/results/machines.json
	@$(BIN)/python -m bench.machines $(ARGS)

# Beside other work: it takes its time. SAMPLE=0 tries every mutant; ARGS=--survivors only those that were recorded.
mutants: $(TESTED_WITH) ## ROOM=engine SAMPLE=150 SEED=1: faults that no test notices; writes bench/results/mutants.json
	@nice -n 19 $(BIN)/python -m bench.mutants $(ROOM) --sample $(or $(SAMPLE),150) --seed $(or $(SEED),1) $(ARGS)

# Fetches labelled data once, into .cache.
bench-quality: .venv/.stamp-models ## how right speech, reading and tags are; writes bench/results/quality.json
	@$(BIN)/python -m bench.quality $(ARGS)

spec: spec-record ## the requirements, the tests that show them, and whether they pass
	@$(BIN)/python scripts/spec.py

spec-json: spec-record ## the same for scripts (make -s spec-json)
	@$(BIN)/python scripts/spec.py --json

lock: ## pins requirements/ anew from pyproject.toml; ARGS=--upgrade takes newer versions
	@scripts/lock.sh $(ARGS)

clean: ## removes what the targets made, except ./data
	@rm -rf .venv .tools .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
		src/mediamill/ui/static/vendor bench/run build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- set-up; all that it says goes to stderr, so that stdout stays the target's own ---

.venv/.made-in:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mediamill needs Python 3.11 or newer; make PYTHON=... names one")' >&2
	@echo "creating .venv" >&2
	@scripts/uv.sh venv --quiet --clear --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .venv >&2
	@printf '%s\n' "$$(pwd -P)" >$@

.venv/.stamp-runtime: requirements/runtime.txt requirements/build.txt pyproject.toml | .venv/.made-in
	@echo "installing mediamill" >&2
	@$(INSTALL) --require-hashes -r requirements/runtime.txt -r requirements/build.txt >&2
	@$(INSTALL) --no-deps --no-build-isolation --offline --editable . >&2
	@touch $@

# Model files are data in .venv/share; what is there already is only checked, which needs no network.
.venv/.stamp-models: src/mediamill/processors/models/catalogue.py .venv/.stamp-runtime
	@echo "fetching the models" >&2
	@$(BIN)/mediamill models fetch >&2
	@touch $@

.venv/.stamp-otel: requirements/otel.txt .venv/.stamp-runtime
	@echo "installing OpenTelemetry" >&2
	@$(INSTALL) --require-hashes -r requirements/otel.txt >&2
	@touch $@

.venv/.stamp-dev: requirements/dev.txt .venv/.stamp-runtime
	@echo "installing the tools of development" >&2
	@$(INSTALL) --require-hashes -r requirements/dev.txt >&2
	@touch $@

.venv/.stamp-bench: requirements/bench.txt .venv/.stamp-runtime
	@echo "installing the peers to measure against" >&2
	@$(INSTALL) --require-hashes -r requirements/bench.txt >&2
	@touch $@

.tools/.stamp-js: requirements/js/package-lock.json scripts/fetch_js.py | .venv/.made-in
	@echo "fetching the pages' libraries" >&2
	@mkdir -p .tools
	@$(PYTHON) scripts/fetch_js.py >&2
	@touch $@

.tools/.stamp-bridge: bridges/whatsapp/package-lock.json tests/identity_provider/package-lock.json \
		tests/foreign_clients/package-lock.json tests/tus_clients/package-lock.json scripts/setup_bridge.py .venv/.stamp-runtime
	@echo "fetching the packages of the WhatsApp bridge, and those of the tests: an identity provider, other people's clients" >&2
	@$(BIN)/python scripts/setup_bridge.py >&2
	@touch $@

.tools/.stamp-pi: src/mediamill/agents/pi_package/package-lock.json src/mediamill/node_requirements.txt scripts/setup_pi.py .venv/.stamp-runtime
	@echo "fetching the pi agent for the tests" >&2
	@$(BIN)/python scripts/setup_pi.py >&2
	@touch $@

.tools/browser: scripts/setup_browser.sh
	@scripts/setup_browser.sh >&2

.tools/redis: scripts/setup_redis.sh requirements/redis.txt
	@scripts/setup_redis.sh >&2

.tools/s3: scripts/setup_s3.sh requirements/s3.txt
	@scripts/setup_s3.sh >&2

.tools/clients: scripts/setup_clients.sh requirements/clients.txt | .venv/.made-in
	@scripts/setup_clients.sh >&2

.tools/litellm/.stamp: requirements/litellm.txt scripts/setup_litellm.sh | .venv/.made-in
	@scripts/setup_litellm.sh >&2
	@touch $@

.tools/postgres16: scripts/setup_postgres16.sh requirements/postgres16.txt
	@scripts/setup_postgres16.sh >&2

.tools/pgbouncer: scripts/setup_pgbouncer.sh
	@scripts/setup_pgbouncer.sh >&2

.tools/proxies: scripts/setup_proxies.sh
	@scripts/setup_proxies.sh >&2

.tools/promtool: scripts/setup_promtool.sh
	@scripts/setup_promtool.sh >&2

# Tests that fail are part of the record; a run that could not even collect them leaves none, and is an error.
RECORD := .cache/spec.json
spec-record: $(TESTED_WITH)
	@if [ ! -f $(RECORD) ] || [ -n "$$(find src tests docs/requirements.md conftest.py pyproject.toml -type f \
			-newer $(RECORD) -not -path '*/__pycache__/*' -not -path '*/screenshots/*' -print -quit)" ]; then \
		echo "running the tests for the record of requirements" >&2; \
		rm -f $(RECORD); \
		$(BIN)/pytest -q $(SHARED) >&2 || [ $$? = 1 ]; \
		[ -f $(RECORD) ] || { echo "the test run left no record" >&2; exit 1; }; \
	fi
