# groupcomm: `make help` lists what there is to do. Everything is installed under .venv, nothing
# outside this folder is touched, but for Debian packages by `make bench-peers` and
# `make browser-test` if you are root.

PYTHON := .venv/bin/python
INSTALLED := pyproject.toml .ci/venv $(wildcard .ci/lock/*.txt)
SOAK_MINUTES ?= 60
NIGHT_MINUTES ?= 180
DISASTERS ?= 200
KILLS ?= 100
FUZZ_SECONDS ?= 60
ROUNDS ?= 3
RUNS ?= 10
EACH ?= 60
DRAW ?= 1
EXAMPLES ?= 1000
.DEFAULT_GOAL := help
export PYTHONHASHSEED := 0
export PYTHONDONTWRITEBYTECODE :=  # modules are compiled once, not by each process of each test
.PHONY: docs docs-links release-check nightly properties help run page test lint types unit flaky format figures costs bench-check bench-record fuzz soak explore specification transitions mutation chaos \
	sites-kill namespaces campaigns packages deb manuals bench-peers performance browser-test browser-bench spark lock clean

help:  ## this list
	@awk -F ':.*##' '/^[a-z-]+:.*##/ {printf "  make %-13s %s\n", $$1, $$2}' Makefile

run: .venv/.run  ## three daemons on this host: all levels, a crash, and one order in spite of it
	@.venv/bin/groupcomm demo
	@echo "To see such a cluster live, as a page in a browser: make page"

page: .venv/.run  ## the same; then the daemons stay, with messages and a live page for a browser, until ^C
	@exec .venv/bin/groupcomm demo --keep  # with exec, what ends make reaches it

spark: .venv/.spark  ## the demo and the vehicle recorded, verified and reported on Spark
	@$(PYTHON) -m examples.pipeline --to build/spark

test: .venv/.test  ## everything a change must pass: lint, types, tests of what users run
	@.ci/gate

lint: .venv/.test  ## style and formatting
	@$(PYTHON) -m ruff check
	@$(PYTHON) -m ruff format --check

types: .venv/.test  ## mypy --strict over everything
	@$(PYTHON) -m mypy

unit: .venv/.test  ## the tests alone
	@$(PYTHON) -m pytest --numprocesses auto

.PHONY: verification
verification: .venv/.test  ## tests of what finds bugs: checkers, explorers, mutants, specification; when one of them changes
	@$(PYTHON) -m pytest --numprocesses $$(($$(nproc) * 2)) -m "verification and not long"

properties: .venv/.test  ## every property with EXAMPLES (1000) random examples instead of 10 fixed ones
	@EXAMPLES=$(EXAMPLES) $(PYTHON) -m pytest --numprocesses auto --hypothesis-profile properties \
		-m hypothesis

format: .venv/.test  ## rewrite the sources in the common format
	@$(PYTHON) -m ruff format
	@$(PYTHON) -m ruff check --fix

figures: .venv/.test  ## measure the simulator, delays of every level, the checkers, a daemon
	@$(PYTHON) tests/groupcomm/sim/bench_simulator.py
	@$(PYTHON) -m tests.groupcommd.bench_daemons

costs: .venv/.test  ## what a message costs: steps, datagrams, bytes and calls, in virtual time
	@$(PYTHON) -m tests.costs.table

bench-check: .venv/.test  ## is it slower than recorded? figures by yardsticks; some minutes
	@$(PYTHON) -m tests.verification.campaigns guard.check

bench-record: .venv/.test  ## write down how fast it is now, for bench-check
	@$(PYTHON) -m tests.verification.campaigns guard.check --record

fuzz: .venv/.fuzz  ## bytes for every decoder for FUZZ_SECONDS (60), guided by coverage; or INPUTS each
	@$(PYTHON) tests/verification/campaigns/fuzz/fuzz_decoders.py \
		$(if $(INPUTS),--table --inputs $(INPUTS),-max_total_time=$(FUZZ_SECONDS))

soak: .venv/.test  ## hunt every mutant anew, then new seeds for SOAK_MINUTES (60); resumes
	@$(PYTHON) tests/verification/soak/soak.py --minutes $(SOAK_MINUTES)

.PHONY: days
days: .venv/.test  ## simulated days of clusters that live on, for SOAK_MINUTES (60); resumes
	@$(PYTHON) tests/verification/soak/soak.py --days --minutes $(SOAK_MINUTES)

nightly: .venv/.test  ## what a service runs each night: verification, soak for NIGHT_MINUTES (180), chaos, explore, properties
	@failed=; for each in verification "soak SOAK_MINUTES=$(NIGHT_MINUTES)" "chaos DISASTERS=$(DISASTERS)" explore properties; do \
		$(MAKE) --no-print-directory $$each || failed="$$failed; make $$each"; \
	done; [ -z "$$failed" ] || { echo "failed$$failed" >&2; exit 1; }

flaky: .venv/.test  ## all tests RUNS (10) times, in random orders, every second time beside burnt processors: what is ever red?
	@$(PYTHON) -m tests.verification.campaigns flaky --runs $(RUNS)

explore: .venv/.test  ## every order of what can happen to two and three daemons, with faults
	@$(PYTHON) -m tests.verification.campaigns exploration

specification: .venv/.test  ## every state of the specification of views, order and recovery, within bounds
	@$(PYTHON) -m tests.verification.campaigns specification

transitions: .venv/.test  ## which transitions of the state machines do scenarios, seeds and tests reach?
	@$(PYTHON) -m tests.verification.transitions

mutation: .venv/.test  ## change the protocol in EACH (60) places of each package, drawn by DRAW (1): does a check notice?
	@$(PYTHON) -m tests.verification.mutation_testing --each $(EACH) --draw $(DRAW)

chaos: .venv/.test  ## real daemons and programs: DISASTERS (200) of all kinds, checked; goes on where it was stopped
	@$(PYTHON) -m tests.verification.campaigns chaos --disasters $(DISASTERS) \
		--records build/chaos --totals build/chaos/totals.jsonl
	@$(PYTHON) -m tests.verification.campaigns chaos --disasters $(DISASTERS) --sites 3 \
		--totals build/chaos/totals-sites.jsonl

sites-kill: .venv/.test  ## gateways of three sites killed KILLS (100) times: when is traffic on again?
	@$(PYTHON) -m tests.verification.campaigns chaos.sites_kill --kills $(KILLS)

namespaces: .venv/.test  ## sites and networks on interfaces of their own; needs root
	@$(PYTHON) -m tests.groupcommd.namespaces

packages: .venv/.package  ## wheel and sdist in dist/, checked by twine
	@rm -f dist/*.whl dist/*.tar.gz
	@$(PYTHON) -m hatchling build
	@$(PYTHON) -m twine check --strict dist/*.whl dist/*.tar.gz

release-check: .venv/.package  ## can this commit be released? a fresh clone, both commands, docs, packages, each Python
	@$(PYTHON) -m tests.release.check

deb: .venv/.test  ## a Debian package in dist/: commands, service, manual pages, completions
	@$(PYTHON) -m packages.deb --output dist

manuals: .venv/.test  ## manual pages and completions for bash, zsh and fish in build/share
	@$(PYTHON) -m packages.manuals build/share

campaigns: .venv/.test  ## flush, Spread, mutex, store, recorder, Spark under kills; junk, rude programs, bounds, files, disks, memory, attackers
	@$(PYTHON) -m pytest --numprocesses auto -m long
	@$(PYTHON) -m tests.verification.campaigns --usual

bench-peers: .venv/.peers  ## Corosync, NATS, Redis, ZeroMQ and ours in turn, ROUNDS (3) times
	@.ci/peers
	@$(PYTHON) -m tests.verification.campaigns peers.bench --rounds $(ROUNDS)
	@$(PYTHON) -m tests.verification.campaigns peers.replay --rounds $(ROUNDS)

performance: .venv/.peers  ## every figure of the pages on performance, ROUNDS (3) times; half an hour; resumes
	@.ci/peers
	@$(PYTHON) -m tests.verification.campaigns performance --rounds $(ROUNDS)

browser-test: .venv/.test  ## pages in a real browser; installs Debian's chromium if you are root
	@.ci/browser
	@$(PYTHON) -m pytest tests/browser -m "long or not long"

browser-bench: .venv/.test  ## how fast the page of 10,000 messages is there
	@.ci/browser
	@$(PYTHON) -m tests.browser.bench_load

docs: .venv/.test  ## the documentation as a site: build/docs/index.html; a warning is an error
	@# All pages are written each time: the search forgets the glossary's words of those that are not.
	@$(PYTHON) -m sphinx -b html -q -j auto --write-all --fail-on-warning --keep-going \
		-d build/doctrees docs build/docs
	@echo "groupcomm: open build/docs/index.html"

docs-links: .venv/.test  ## are the links to other sites alive? needs a network
	@$(PYTHON) -m sphinx -b linkcheck -q -j auto -d build/doctrees docs build/docs-links

lock: .venv/.run  ## .ci/lock anew: the newest releases that pyproject.toml allows, with hashes of their files
	@$(PYTHON) .ci/relock.py

clean:  ## remove what was installed and built
	rm -rf .venv .boot build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/.run: $(INSTALLED)
	@[ -e .venv/.test ] || .ci/venv tools
	@touch $@

.venv/.spark: $(INSTALLED)
	@[ -e .venv/.test ] || .ci/venv "spark$$(.ci/java)"
	@touch $@

.venv/.test: $(INSTALLED)
	@.ci/venv "test$$(.ci/java)"
	@touch $@

.venv/.fuzz: .venv/.test
	@.ci/venv test,fuzz
	@touch $@

.venv/.package: .venv/.test
	@.ci/venv test,package
	@touch $@

.venv/.peers: .venv/.test
	@.ci/venv test,peers
	@touch $@
