# Sourced by setup.sh: what the system must offer, how that is seen, and which packages bring it.
#
# Each need is probed by using it, so that any distribution and any hand-made installation will do. Package names are
# lists, best first: releases name different versions, and the first that the machine's own apt offers is taken.

# need | probe | level | candidate packages (groups separated by ';', alternatives by ' ')
system_needs() {
  cat <<'NEEDS'
a C++20 compiler (g++ 11 or newer)|probe_compiler|use|g++
the libc headers and make|probe_include stdlib.h|use|libc6-dev;make
Boost.Context 1.74 or newer|probe_include boost/context/detail/fcontext.hpp|use|libboost-context1.81-dev libboost-context1.83-dev libboost-context1.88-dev libboost-context1.90-dev libboost-context-dev libboost-context1.74-dev
liburing|probe_include liburing.h|use|liburing-dev
nlohmann/json|probe_include nlohmann/json.hpp|use|nlohmann-json3-dev
Python 3.11 or newer with its headers and venv|find_python|use|python3 python3.13 python3.12 python3.11;python3-dev python3.13-dev python3.12-dev python3.11-dev;python3-venv python3.13-venv python3.12-venv python3.11-venv
doctest|probe_include doctest/doctest.h|develop|doctest-dev
rapidcheck|probe_include rapidcheck.h|develop|librapidcheck-dev
NEEDS
}

probe_compiler() { echo 'int main() { return [](auto x) requires true { return x; }(0); }' | c++ -std=c++20 -x c++ -fsyntax-only - 2>/dev/null; }
probe_include() { echo "#include <$1>" | c++ -std=c++20 -x c++ -fsyntax-only - 2>/dev/null; }

# The first interpreter that is new enough, has its headers, and can make a venv. The system's comes before the others
# on PATH: its headers are packages, and it does not vanish with a version manager.
find_python() {
  local python
  for python in ${PYTHON:-/usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11}; do
    "$python" - 2>/dev/null <<'PY' && { command -v "$python"; return 0; }
import ensurepip, os, sys, sysconfig
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(not (sys.version_info >= (3, 11) and os.path.exists(header)))
PY
  done
  return 1
}

python_remedy() {
  local found
  found=$(/usr/bin/python3 -V 2>&1 || true)
  echo "no Python 3.11 or newer with its headers and the venv module was found (/usr/bin/python3 is ${found:-missing});" \
    "install one (Ubuntu 22.04: apt install python3.11 python3.11-dev python3.11-venv) or name yours: make setup PYTHON=/path/to/python3"
}

apt_offers() { [[ $(apt-cache policy "$1" 2>/dev/null) == *Candidate:\ [0-9]* ]]; }

first_offered() {
  local package
  for package in "$@"; do
    apt_offers "$package" && { echo "$package"; return 0; }
  done
  return 1
}

missing_needs() {
  local name probe level packages
  while IFS='|' read -r name probe level packages; do
    [[ $level == develop && $1 == use ]] && continue
    $probe >/dev/null || printf '%s|%s\n' "$name" "$packages"
  done < <(system_needs)
}

as_root() {
  if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi
}

install_system_packages() {
  local missing name packages group package
  missing=$(missing_needs "$1")
  [[ -z $missing ]] && return
  say "missing: $(cut -d'|' -f1 <<<"$missing" | paste -sd, | sed 's/,/, /g')"
  command -v apt-get >/dev/null || die "there is no apt-get here; install the above by hand and run this again"
  if [[ $(id -u) != 0 ]] && ! command -v sudo >/dev/null; then
    die "installing packages needs root, and there is no sudo; as root, run: apt-get install $(candidates "$missing")"
  fi
  as_root apt-get update -qq
  packages=$(candidates "$missing")
  say "installing with apt: $packages"
  # shellcheck disable=SC2086
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null
  missing=$(missing_needs "$1")
  [[ -z $missing ]] || die "still missing after the installation: $(cut -d'|' -f1 <<<"$missing" | paste -sd,)"
}

candidates() {
  local name packages group
  while IFS='|' read -r name packages; do
    while IFS= read -r -d';' group; do
      # shellcheck disable=SC2086
      first_offered $group || echo "${group%% *}"
    done <<<"$packages;"
  done <<<"$1" | paste -sd' '
}
