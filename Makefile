# One sentence for each target is in `make help`. Every target starts from a bare checkout: it makes .venv,
# installs into it what the target needs, and runs.
#
# Two stamps keep track of what .venv holds: `core` is what the demo needs (seconds), `all` is what the tests,
# the checks and the benchmarks need. Both are made again when the project's lists of packages or the compiled
# twin's files change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python .ci/install.py
LISTS := setup.cfg setup.py pyproject.toml $(wildcard pyproducer/hotpath/_native*.p* pyproducer/hotpath/_python_ledger.py \
	pyproducer/hotpath/_python_role.py)

# Where a C compiler is, a compiled twin that does not compile is an error and no fall-back: see setup.py.
NO_COMPILER = $(shell $(PYTHON) tests/support/compiler.py)
# The tests of Kerberos need a KDC, and the package gssapi, which is compiled with what krb5-config names.
NO_KERBEROS = $(if $(NO_COMPILER),$(NO_COMPILER),$(if $(shell PATH="$$PATH:/usr/local/sbin:/usr/sbin:/sbin"; \
	command -v krb5-config >/dev/null && command -v krb5kdc),,Kerberos is not installed \
	(Debian: apt-get install krb5-kdc krb5-admin-server krb5-user libkrb5-dev)))
BUILD = $(if $(NO_COMPILER),,PYPRODUCER_IMPL=native) $(PIP)
# A file's tests stay together, in an order drawn anew for each run. Half of a test is waiting for somebody, so there is
# one worker more than processors.
PROCESSORS := $(shell nproc 2>/dev/null || echo 2)
PARALLEL := -n $(shell expr $(PROCESSORS) + 1) --dist loadfile --no-loadscope-reorder
PYTEST := $(BIN)/python -m pytest -q $(PARALLEL)
# Beside that one, and each worker more reads all tests once more.
PYTEST_BESIDE := $(BIN)/python -m pytest -q -n $(PROCESSORS) --dist loadfile --no-loadscope-reorder
# What both twins run; the rest speaks of neither. What differs between them shows on any cluster.
OF_BOTH_TWINS := tests/unit tests/property tests/contract tests/embedded tests/simulation
# ... but for what no line of the twins decides: the broker, the protocol, files, commands and our tools; what imports
# nothing of them; what a producer decides behind them (codes, logins, names, numbers of a producer id); and what runs
# both twins beside each other wherever it runs.
# tests/README.md has the table.
OF_ONE_TWIN := $(addprefix --ignore=,tests/unit/broker tests/unit/cli tests/unit/protocol tests/unit/spark \
	tests/unit/client tests/unit/frames tests/unit/transaction tests/unit/twophase tests/unit/producer/config \
	tests/unit/network/sasl tests/unit/network/test_key_store.py tests/unit/network/test_ssl_context.py \
	$(addprefix tests/unit/test_,contributing.py design.py model_broker.py mutants.py museum.py near.py readme.py skips.py type_checkers.py) \
	$(addprefix tests/property/test_,protocol.py twins.py columns.py) tests/contract/test_produce_codes.py \
	$(wildcard tests/embedded/test_wire_*.py) $(wildcard tests/embedded/test_*_torture.py) \
	$(addprefix tests/embedded/test_,acls.py advertised.py clock.py commands.py control_port.py default_install.py \
	descriptors.py doctor.py embedded_broker.py examples.py fault_lies.py faults.py forgetting_runs.py \
	forgotten_by_our_broker.py forked_broker.py freeze.py group_timing.py idle.py kill.py leadership.py login_faults.py \
	logins.py makefile.py malformed_frames.py model_cluster.py network_layer.py placement.py prepared_transactions.py \
	producer_faults.py programs.py pytest_plugin.py read_topic.py release.py replication.py \
	sasl_listener.py sasl_producer.py scripted_broker.py several_brokers.py slow_names.py throttle.py tls_errors.py tls_listener.py \
	transactions.py two_phase.py users.py))
ON_THE_TEXT := PYPRODUCER_IMPL=python PYPRODUCER_TEST_CLUSTERS=embedded
ELSEWHERE := .cache/elsewhere.log

# Who names a Python means it, also where .venv was made of another before. Without a name .venv stays what it is.
ifneq ($(filter command line environment override,$(origin PYTHON)),)
ifneq ($(filter-out help,$(MAKECMDGOALS)),)
OF_PYTHON = $(shell $(1) -c 'import sys, sysconfig; print(sys.version.split()[0], sysconfig.get_platform(), \
	sysconfig.get_config_var("SOABI"), sys.base_prefix)' 2>/dev/null)
THEIRS := $(if $(wildcard $(BIN)/python),$(call OF_PYTHON,$(BIN)/python))
NAMED := $(if $(THEIRS),$(call OF_PYTHON,$(PYTHON)))
ifneq ($(and $(NAMED),$(filter-out $(NAMED),$(THEIRS))),)
ifeq ($(wildcard $(VENV)/.made),)
$(error $(VENV) is of Python $(firstword $(THEIRS)) and was not made by make: remove it, or leave out PYTHON=$(PYTHON))
endif
$(info make: $(VENV) is of Python $(firstword $(THEIRS)) and $(PYTHON) is $(firstword $(NAMED)): $(VENV) is made anew)
$(if $(findstring n,$(firstword -$(MAKEFLAGS))),,$(shell rm -rf $(VENV)))
endif
endif
endif

# Some images forbid byte code. Here hundreds of processes start that would all compile the same files: 11 s of
# CPU for the tests alone in each worker of pytest, a tenth for each process that imports pyproducer.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo near nearest test tiers elsewhere environments compiled sparks soak coverage lint bench wheels python-is-there

help:
	@echo "make demo      send one million records to an embedded broker, read them back, print rate and percentiles"
	@echo "               the first time half a minute and 60 MB (.venv); then ten seconds"
	@echo "make near      the tests that run what you changed, nearest first, until one fails: seconds (SINCE=main: what"
	@echo "               changed since that branch; NEAR=--help: more)"
	@echo "make test      ruff, mypy --strict, import-linter and every tier of the tests on both twins, the default install"
	@echo "               and other Pythons; a quarter of an hour on 2 processors (Java and Maven for Kafka and Spark)"
	@echo "               the first time 2 minutes and 1.5 GB more (.venv and .cache; Maven takes 100 MB in ~/.m2)"
	@echo "make soak      what takes longer: hours of mutants, random property tests, kills under load (Java, Maven)"
	@echo "make sparks    the sink on Spark 3.5, on 4.0 and on Spark Connect: five minutes and 3 GB (.cache; Java, Maven)"
	@echo "make coverage  which lines the tests run, the broker's child processes included"
	@echo "make lint      ruff, mypy --strict, import-linter"
	@echo "make bench     pyproducer beside other producers (Python, Java, Go) on one real broker; an hour (Java, Maven)"
	@echo "make wheels    wheels for Linux (glibc, musl; x86_64, aarch64) and every Python here, a pure one, the sdist,"
	@echo "               into dist/ with checksums; half a minute for each wheel and 700 MB (.cache/wheels)"
	@echo "All targets but wheels are for .venv, which the first makes; PYTHON=python3.12 names another Python for it."
	@echo "Only an install needs a network: the first run of a target, and the first after a change of setup.cfg."

demo: $(VENV)/.core
	@$(BIN)/python -m examples.demo

# A compiled twin whose text changed is built in place by it: an install would take minutes, and is for a new .venv.
near: $(if $(wildcard $(VENV)/.all),,$(VENV)/.all)
	@$(BIN)/python -m tests.near $(if $(SINCE),--since $(SINCE)) $(NEAR)

test: python-is-there
	@command -v java >/dev/null || echo "make test: java is not installed: install a JDK 17 or newer" \
		"(Debian: apt-get install openjdk-17-jdk-headless); the tests against Apache Kafka and Spark are skipped" >&2
	@command -v mvn >/dev/null || echo "make test: mvn is not installed: install Maven" \
		"(Debian: apt-get install maven); the tests that need Apache Kafka's jars are skipped" >&2
	@test -z "$(NO_COMPILER)" || echo "make test: $(NO_COMPILER);" \
		"the tests run on the Python text of the compiled twin alone" >&2
	@test -z "$(NO_KERBEROS)" || echo "make test: $(NO_KERBEROS); the tests with a KDC are skipped" >&2
	@$(MAKE) --no-print-directory -j2 lint environments compiled $(if $(filter true,$(CI)),,FIRST=nearest)
	@$(MAKE) --no-print-directory -j$(PROCESSORS) -k tiers elsewhere

# Each worker of pytest reads all tests, and where nothing is compiled yet, five of them compile the same files at once.
# What is wrong with a file is told by those that run it.
compiled: $(VENV)/.all
	@ls tests/unit/__pycache__/*-pytest-*.pyc >/dev/null 2>&1 || $(BIN)/python -m pytest --collect-only -qq \
		>/dev/null 2>&1 || true

# Before all else, so that what the last commits broke is said at once; none of the tiers that start something. Where
# CI=true nobody waits for that, and all of these tests run later.
nearest: $(VENV)/.all
	@$(BIN)/python -m tests.near --commits 20 --seconds 20 --tiers unit,protocol,property

tiers: $(VENV)/.all
	$(PYTEST)

# Beside the tiers, which wait half of their time; so what it says is kept and told in one piece.
elsewhere: $(VENV)/.all
	@mkdir -p .cache
	@echo "The tests on the Python text, in the default install and on other Pythons run beside: see $(ELSEWHERE)"
	@code=0; { \
		$(if $(NO_COMPILER),true,$(ON_THE_TEXT) $(PYTEST_BESIDE) $(OF_BOTH_TWINS) $(OF_ONE_TWIN)) || code=$$?; \
		$(BIN)/python -m tests.environments default || code=$$?; \
		$(BIN)/python -m tests.environments pythons || code=$$?; \
	} >$(ELSEWHERE) 2>&1; cat $(ELSEWHERE); exit $$code

environments: python-is-there
	@$(PYTHON) -m tests.environments prepare

# What make test does not repeat: each of these has a Spark of its own, a gigabyte and a minute.
sparks: python-is-there
	@$(PYTHON) -m tests.environments sparks

soak: $(VENV)/.all
	PYPRODUCER_TEST_PROFILE=soak $(BIN)/python -m pytest -m soak tests
	PYPRODUCER_TEST_PROFILE=soak $(PYTEST) tests/property
	$(BIN)/python -m tests.simulation --minutes 20
	PYPRODUCER_IMPL=python $(BIN)/python -m tests.simulation --minutes 20
	PYPRODUCER_IMPL=python $(BIN)/python -m tests.simulation --minutes 20 --swarm --from 1000000
	$(BIN)/python -m tests.simulation --museum
	$(BIN)/python -m tests.environments sparks
	$(BIN)/python -m tests.mutants --kept
	$(BIN)/python -m tests.mutants --seed $$(date +%Y%m%d)

wheels: $(VENV)/.core
	@$(BIN)/python .ci/wheels.py $(WHEELS)

coverage: $(VENV)/.all
	$(BIN)/python -m coverage erase
	$(ON_THE_TEXT) $(BIN)/python -m coverage run -m pytest -q $(OF_BOTH_TWINS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --skip-covered --sort=cover

lint: $(VENV)/.all $(FIRST)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.all
	@command -v java >/dev/null || { echo "make bench: java is not installed: install a JDK 17 or newer" \
		"(Debian: apt-get install openjdk-17-jdk-headless)" >&2; exit 1; }
	@command -v mvn >/dev/null || { echo "make bench: mvn is not installed: install Maven" \
		"(Debian: apt-get install maven)" >&2; exit 1; }
	@command -v go >/dev/null || echo "make bench: go is not installed (Debian: apt-get install golang):" \
		"franz-go is left out" >&2
	$(BIN)/python -m benchmarks.batch_writer --keep
	$(BIN)/python -m benchmarks.send_batch --keep
	$(BIN)/python -m benchmarks.send_batch --keep --batch-size 65536
	$(BIN)/python -m benchmarks.compare --keep
	$(BIN)/python -m benchmarks.compare --keep --value-size 1024
	$(BIN)/python -m benchmarks.compare --keep --value-size 1024 --compression zstd
	$(BIN)/python -m benchmarks.compare --keep --value-size 1024 --compression lz4
	$(BIN)/python -m benchmarks.compare --keep --tls
	$(BIN)/python -m benchmarks.compare --keep --tls --value-size 1024
	$(BIN)/python -m benchmarks.compare --keep --delay-ms 10 --partitions 1 --records 400000
	$(BIN)/python -m benchmarks.latency --keep
	$(BIN)/python -m benchmarks.event_loop --keep
	$(BIN)/python -m benchmarks.memory --keep
	$(BIN)/python -m benchmarks.startup --keep
	$(BIN)/python -m benchmarks.cost_model --keep
	$(BIN)/python -m benchmarks.matrix --keep

$(VENV)/.core: $(VENV)/.made $(LISTS)
	@echo "installing pyproducer and what the demo needs into $(VENV): some seconds, 60 MB"
	@$(PIP) -e '.[demo]'
	@touch $@

$(VENV)/.all: $(VENV)/.made $(LISTS)
	@echo "installing pyproducer and what the tests, the checks and the benchmarks need into $(VENV): minutes, 1.1 GB"
	@# pyjks, which reads JKS stores, is built from source; so is gssapi, for Kerberos.
	@$(BUILD) -e '.[demo,spark,test,dev,bench$(if $(NO_COMPILER),,,jks)$(if $(NO_KERBEROS),,,kerberos)]'
	@touch $(VENV)/.core $@

$(VENV)/.made: | python-is-there
	@test -d $(VENV) || test ! -e $(VENV) -a ! -L $(VENV) || { echo "make: $(VENV) is there and is no folder, but a" \
		"file or a link that leads nowhere: remove it" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "make: $(PYTHON) cannot make a" \
		"virtual environment: install its venv module (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@touch $@

python-is-there:
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is not installed: install Python 3.10 or newer" \
		"(Debian: apt-get install python3 python3-venv)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "make: $(PYTHON) is older than 3.10:" \
		"install Python 3.10 or newer, or name one with: make PYTHON=python3.12" >&2; exit 1; }
