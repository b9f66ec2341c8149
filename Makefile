# Everything here installs what is missing first (as root) and can be repeated. `make help` lists the targets.
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
UNIT := $(PYTEST) -q -n 2 --dist worksteal tests/unit
# Root's tests run two at a time, but for those that depend on the pace of the machine.
TWO := $(PYTEST) -q -n 2 --dist loadscope -m not(alone) --ignore=tests/unit
ALONE := $(PYTEST) -q -m alone --ignore=tests/unit

.PHONY: help demo test check unit pythons test-debian study bench seeds fuzz mutate test-vm install schema setup

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: setup ## one link drops 1 %: build, send, detect, and leave a folder in runs/
	$(BIN)/spraylab run gray-link

test: ## everything CI runs: style, types, borders, all tests, the study in short, other Pythons
	@.ci/setup test
	@failed=0; .ci/check & .ci/pythons || failed=1; wait $$! || failed=1; for job in "$(UNIT)" "$(TWO)" "$(ALONE)"; do $$job || failed=1; done; exit $$failed

check: setup ## style, types and borders only
	.ci/check

unit: setup ## tests that need no root
	$(UNIT)

pythons: setup ## unit tests in short with the newest Python and packages of this machine, and with the oldest packages
	.ci/pythons

test-debian: setup ## the unit tests and the demo in a bootstrapped Debian 13 (as root, needs debootstrap)
	.ci/debian13

study: setup ## ten random links and directions at 1 %, ten runs without a fault, as a table
	$(BIN)/python -m tests.study.gray_links

bench: setup ## ratios to a C sender, what counting costs, and seconds to build a fabric
	$(BIN)/python -m tests.bench.bench_transport
	$(BIN)/python -m tests.bench.bench_counters
	$(BIN)/python -m tests.bench.bench_fabric

golden: setup ## what leaves' counters return in real runs, and what follows from it, recorded anew (as root)
	$(BIN)/python -m tests.study.leaf_recordings

seeds: setup ## thousands of seeds of trouble for two agents in memory, and a table of what they covered
	$(BIN)/python -m tests.study.transport_seeds

conformance: setup ## the conformance list with Scapy building and reading every packet of one side; half an hour
	SPRAYLAB_CONFORMANCE=scapy $(PYTEST) -q tests/unit/agent/conformance

fuzz: setup ## a million hostile frames thrown at live agents in memory
	$(BIN)/python -m tests.fuzz.fuzz_host --frames 1000000 --seed 1

mutate: setup ## ten thousand damaged run folders through show, detect, report, compare and pcap merge
	$(BIN)/python -m tests.fuzz.mutate_runs --folders 10000 --seed 1

# VM is any command that runs its arguments under another kernel, with this machine's files.
test-vm: setup ## eBPF and faults with netem, in the kernel and on a fabric, under the kernel that VM="COMMAND..." boots
	@test -n "$(VM)" || { echo 'say how: make test-vm VM="COMMAND THAT RUNS ITS ARGUMENTS IN A VM"' >&2; exit 2; }
	$(BIN)/python -m compileall -q agent faults results scenarios testbed tests
	$(VM) $(PYTEST) -q -p no:cacheprovider tests/kernel/test_spraycheck_bpf.py tests/kernel/test_qdisc.py tests/kernel/test_faults.py
	$(VM) $(PYTEST) -q -p no:cacheprovider tests/kernel/test_fault_kinds.py tests/kernel/test_delay_distributions.py
	$(VM) $(PYTEST) -q -p no:cacheprovider tests/fabric/test_faults.py tests/fabric/test_stock_kernel.py \
		tests/fabric/test_hard_faults.py::test_ten_milliseconds_of_delay_are_accused_by_nobody

install: setup ## the command spraylab for every user: a link in /usr/local/bin
	@.ci/install "$(CURDIR)/$(BIN)/spraylab" /usr/local/bin/spraylab

schema: setup ## what is generated from types: JSON Schemas, tables of documents, the layouts in the Wireshark dissector
	$(BIN)/python -m scenarios.file.reference > docs/scenario.schema.json
	$(BIN)/python -m scenarios.record_schemas docs/schemas
	$(BIN)/python -m agent.wire.lua_tables docs/wireshark/mrc.lua
	$(BIN)/python -m scenarios.file.reference docs/scenarios.md
	$(BIN)/python -m faults.kinds.reference docs/faults.md

setup:
	@.ci/setup
