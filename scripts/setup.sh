#!/usr/bin/env bash
# Brings a checkout to where it can run: system packages, .venv, build. Run through make.
#
#   scripts/setup.sh use       what `mqlab` itself needs
#   scripts/setup.sh develop   the tools of `make test` and `make check` too
#
# Run again, it does only what has become stale. PYTHON=... chooses the interpreter, JOBS=... the parallel compilers.
set -euo pipefail
cd "$(dirname "$0")/.."

level=${1:-develop}
jobs=${JOBS:-2}
venv=.venv
stamps=$venv/stamps

say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'setup: error: %s\n' "$*" >&2; exit 4; }

# shellcheck source=scripts/system_packages.sh
source scripts/system_packages.sh

# A stamp holds the hash of what a step was done from.
fresh() { [[ -f $stamps/$1 && $(<"$stamps/$1") == "$2" ]]; }
stamp() { mkdir -p "$stamps"; printf '%s\n' "$2" >"$stamps/$1"; }

make_venv() {
  "$venv/bin/python" -m pip --version >/dev/null 2>&1 && return
  local python
  python=$(find_python) || die "$(python_remedy)"
  say "making $venv with $python ($("$python" -V))"
  "$python" -m venv --clear "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check --upgrade 'pip>=25.1'
}

# What pyproject.toml says about packages, for one step: the settings of linters must not cost a reinstallation.
read_project() {
  "$venv/bin/python" - "$@" <<'PY'
import json, sys, tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)
groups = project["dependency-groups"]
if sys.argv[1] == "names":
    print(", ".join(requirement for group in sys.argv[2:] for requirement in groups[group]))
else:
    parts = [project["build-system"], project["project"], project["tool"]["scikit-build"], groups, sys.version]
    print(json.dumps(parts, sort_keys=True))
PY
}

install_group() {
  local name=$1 key=$2
  shift 2
  fresh "$name" "$key" && return
  say "installing into $venv: $(read_project names "$@")"
  "$venv/bin/pip" install -q --disable-pip-version-check "${@/#/--group=}"
  stamp "$name" "$key"
}

# The build requirements stay in the venv and the project is built without isolation: an isolated build would leave
# a build tree that refers to a deleted directory, and break the next rebuild.
install_python_packages() {
  install_group build-requirements "$1" build
  if [[ $level == develop ]]; then install_group develop-requirements "$1" test check; fi
}

# pip builds and installs once, and again when the project's metadata change. In between, CMake brings the extension
# and the agent up to date: faster, and it compiles only what changed.
build() {
  if ! fresh project "$1" || [[ ! -f build/editable/CMakeCache.txt ]]; then
    say "building mqlab and installing it and what it depends on into $venv, as an editable install"
    # Python names the compiler that it was built with; ours is the one that every other build tree uses.
    PATH="$PWD/$venv/bin:$PATH" CXX="${CXX:-c++}" CMAKE_BUILD_PARALLEL_LEVEL=$jobs \
      "$venv/bin/pip" install -q --disable-pip-version-check --no-build-isolation --editable .
    stamp project "$1"
    return
  fi
  local platlib
  platlib=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
  quietly "$venv/bin/cmake" --build build/editable --target mqlab_python --parallel "$jobs"
  quietly "$venv/bin/cmake" --install build/editable --component python --prefix "$platlib"
}

quietly() {
  local output
  output=$("$@" 2>&1) || { printf '%s\n' "$output" >&2; die "failed: $*"; }
}

[[ $level == use || $level == develop ]] || die "unknown level '$level': use or develop"
install_system_packages "$level"
make_venv
key=$(read_project all | sha256sum | cut -d' ' -f1)
install_python_packages "$key"
build "$key"
