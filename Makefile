# Every target sets up what it needs first; nothing outside of the checkout changes except system packages, which
# scripts/setup.sh names before it installs them.

SHELL := /bin/bash
JOBS ?= 2
CMAKE := .venv/bin/cmake
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: setup reproduce test test-kernels check format stubs asan tsan bench clean

setup:
	@JOBS=$(JOBS) scripts/setup.sh develop

# Every published table beside our own figures. ARGS are passed on: make reproduce ARGS="tags-srcu --json"
reproduce:
	@JOBS=$(JOBS) scripts/setup.sh use
	@.venv/bin/mqlab reproduce $(ARGS)

# The C++ tests, then the Python ones; CTEST_ARGS and PYTEST_ARGS are passed on.
test: setup
	$(CMAKE) -DMQLAB_TESTS=ON -B build/editable >/dev/null
	$(CMAKE) --build build/editable --parallel $(JOBS)
	ctest --test-dir build/editable --output-on-failure --parallel $(JOBS) $(CTEST_ARGS)
	python -m pytest $(PYTEST_ARGS)

# What needs kernels that take long to build, or the thread files, whose folder MQLAB_THREAD_FILES names.
test-kernels: setup
	MQLAB_TEST_KERNELS=1 python -m pytest -m kernels --timeout=7200 -rs $(PYTEST_ARGS)

# Everything that reads the code without running it: formatting, linters, types, arrows, layers, stubs.
check: setup
	@JOBS=$(JOBS) scripts/check.sh

format: setup
	ruff check --fix .
	ruff format .
	git ls-files '*.h' '*.cc' | xargs -r clang-format -i

# Brings _core.pyi up to date with the extension.
stubs: setup
	python scripts/check_stubs.py --write

asan tsan: setup
	cmake --preset $@ >/dev/null
	cmake --build build/$@ --parallel $(JOBS)
	ctest --test-dir build/$@ --output-on-failure $(CTEST_ARGS)

# Google Benchmark runs, and how long a start takes, merged into build/bench.json. BENCH_ARGS="--only sbitmap" picks.
bench: setup
	cmake --preset bench >/dev/null
	cmake --build build/bench --parallel $(JOBS)
	python scripts/run_bench.py --build build/bench --out build/bench.json $(BENCH_ARGS)

clean:
	rm -rf build dist
