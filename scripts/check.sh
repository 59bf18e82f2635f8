#!/usr/bin/env bash
# Every check that reads the code without running it. All are run, also after one has failed, so that one call names
# everything. Run through `make check`.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
jobs=${JOBS:-2}
failed=()

check() {
  local name=$1 start=$SECONDS
  shift
  if "$@"; then
    printf 'check: %-14s ok (%ss)\n' "$name" "$((SECONDS - start))"
  else
    printf 'check: %-14s FAILED: %s\n' "$name" "$*" >&2
    failed+=("$name")
  fi
}

cpp_files() { git ls-files -z '*.h' '*.cc'; }

# One line a file rather than one a place.
clang_format() {
  local output
  output=$(cpp_files | xargs -0 -r clang-format --dry-run --Werror 2>&1) && return
  grep -oE '^[^:]+' <<<"$output" | grep -E '\.(h|cc)$' | sort -u | sed 's/$/: not formatted/' >&2
  return 1
}

layers() {
  local output
  output=$(lint-imports --no-logo 2>&1) || { printf '%s\n' "$output" >&2; return 1; }
}

tidy() {
  cmake --preset tidy -DPython_EXECUTABLE="$PWD/.venv/bin/python" >build/tidy-configure.log 2>&1 ||
    { cat build/tidy-configure.log >&2; return 1; }
  python scripts/run_tidy.py --build build/tidy --jobs "$jobs"
}

check tree python scripts/check_tree.py
check arrows python scripts/check_arrows.py
check layers layers
check stubs python scripts/check_stubs.py
check ruff ruff check --quiet --output-format=concise .
check ruff-format ruff format --quiet --check .
check mypy mypy --no-error-summary
check clang-format clang_format
check clang-tidy tidy

if ((${#failed[@]})); then
  printf 'check: failed: %s (make format mends the formatting)\n' "${failed[*]}" >&2
  exit 1
fi
