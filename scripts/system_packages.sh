# Sourced by setup.sh, which provides say and die: what the system must offer, how that is seen, and which packages
# bring it.
#
# Each need is probed by using it, so that any distribution and any hand-made installation will do. Releases name
# different versions, so packages are lists, best first; the first that the machine's own apt offers is taken.

# need | probe | level | packages: alternatives separated by spaces
system_needs() {
  cat <<'NEEDS'
a C++20 compiler (g++ 11 or newer)|probe_compiler|use|g++
Boost.Context 1.74 or newer|probe_include boost/context/detail/fcontext.hpp|use|libboost-context1.81-dev libboost-context1.83-dev libboost-context1.88-dev libboost-context1.90-dev libboost-context-dev libboost-context1.74-dev
nlohmann/json|probe_include nlohmann/json.hpp|use|nlohmann-json3-dev
Python 3.11 or newer with its headers and the venv module|find_python|use|PYTHON
doctest|probe_include doctest/doctest.h|develop|doctest-dev
rapidcheck|probe_include rapidcheck.h|develop|librapidcheck-dev
QEMU for x86|probe_qemu|develop|qemu-system-x86
flex (to build kernels)|probe_program flex|develop|flex
bison (to build kernels)|probe_program bison|develop|bison
bc (to build kernels)|probe_program bc|develop|bc
patch (to build kernels)|probe_program patch|develop|patch
libelf (to build kernels)|probe_include gelf.h|develop|libelf-dev
OpenSSL's headers (to build kernels)|probe_include openssl/opensslv.h|develop|libssl-dev
Google Benchmark|probe_include benchmark/benchmark.h|develop|libbenchmark-dev
NEEDS
}

# What would be good to have (faster rebuilds, a prompt in guests); nothing depends on it.
readonly OPTIONAL_PACKAGES=(ccache busybox-static)

# Preprocessing answers in milliseconds, so that every `make` can afford to ask.
preprocesses() { "${CXX:-c++}" -std=c++20 -x c++ -E - >/dev/null 2>&1; }
probe_include() { printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | preprocesses; }
probe_qemu() { probe_program qemu-system-x86_64; }
probe_program() { command -v "$1" >/dev/null; }
probe_compiler() {
  printf '#include <version>\n#if __cpp_concepts < 201907L || __cpp_lib_semaphore < 201907L\n#error\n#endif\n' | preprocesses
}

# The first interpreter that is new enough, has its headers, and can make a venv. The system's comes before the others
# on PATH: its headers are packages, and it does not vanish with a version manager.
find_python() {
  local python
  local -a candidates=(/usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11)
  [[ -n ${PYTHON:-} ]] && candidates=("$PYTHON")
  for python in "${candidates[@]}"; do
    command -v "$python" >/dev/null && is_good_python "$python" && { command -v "$python"; return 0; }
  done
  return 1
}

is_good_python() {
  "$1" - 2>/dev/null <<'PY'
import ensurepip, os, sys, sysconfig
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(not (sys.version_info >= (3, 11) and os.path.exists(header)))
PY
}

python_remedy() {
  local found
  found=$("${PYTHON:-/usr/bin/python3}" -V 2>&1 || true)
  printf '%s' "no Python 3.11 or newer with its headers and the venv module was found (${PYTHON:-/usr/bin/python3}:" \
    " ${found:-missing}); install one beside it, on Ubuntu 22.04 with 'apt install python3.11 python3.11-dev" \
    " python3.11-venv', or name yours: make setup PYTHON=/path/to/python3"
}

apt_candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: \([0-9].*\)/\1/p'; }
at_least() { [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -1) == "$2" ]]; }

# A release's own Python where it is new enough, otherwise the newest that it has beside it.
python_packages() {
  local name=python3 version
  version=$(apt_candidate python3)
  if [[ -z $version ]] || ! at_least "$version" 3.11; then
    name=$(first_offered python3.14 python3.13 python3.12 python3.11) || name=python3.11
  fi
  echo "$name $name-dev $name-venv"
}

first_offered() {
  local package
  for package in "$@"; do
    [[ -n $(apt_candidate "$package") ]] && { echo "$package"; return 0; }
  done
  return 1
}

# Where one version of Boost's headers is installed, the others conflict with it: then its own Context is taken.
boost_of_this_machine() {
  dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' 'libboost1.*-dev' 2>/dev/null |
    sed -n 's/^ii  *libboost\(1\.[0-9]*\)-dev$/libboost-context\1-dev/p' | sort -rV | head -1
}

packages_for() {
  case $1 in
    PYTHON) python_packages ;;
    # shellcheck disable=SC2046,SC2086
    libboost*) first_offered $(boost_of_this_machine) $1 || echo "${1%% *}" ;;
    # shellcheck disable=SC2086
    *) first_offered $1 || echo "${1%% *}" ;;
  esac
}

# The needs of the level that are not met, as lines of system_needs.
missing_needs() {
  local name probe level packages
  while IFS='|' read -r name probe level packages; do
    [[ $level == develop && $1 == use ]] && continue
    $probe >/dev/null || printf '%s|%s|%s|%s\n' "$name" "$probe" "$level" "$packages"
  done < <(system_needs)
}

needs_named() { cut -d'|' -f1 <<<"$1" | paste -sd';' | sed 's/;/; /g'; }

packages_named() {
  local packages
  while IFS= read -r packages; do packages_for "$packages"; done < <(cut -d'|' -f4 <<<"$1") | paste -sd' '
}

as_root() { if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi; }

apt_install() { as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }

install_system_packages() {
  local missing packages
  missing=$(missing_needs "$1")
  [[ -z $missing ]] && return
  say "the system lacks: $(needs_named "$missing")"
  command -v apt-get >/dev/null || die "there is no apt-get here: install these by hand, then run this again"
  if [[ $(id -u) != 0 ]] && ! command -v sudo >/dev/null; then
    die "installing packages needs root, and there is no sudo; as root, run: apt-get install $(packages_named "$missing")"
  fi
  as_root apt-get update -qq || say "apt-get update failed; going on with the package lists that are there"
  packages=$(packages_named "$missing")
  say "installing with apt: $packages"
  # shellcheck disable=SC2086
  apt_install $packages || die "apt-get could not install them; its messages stand above"
  for packages in "${OPTIONAL_PACKAGES[@]}"; do
    apt_install "$packages" 2>/dev/null || say "going on without $packages, which is good to have"
  done
  missing=$(missing_needs "$1")
  [[ -z $missing ]] && return
  [[ $missing == *"|find_python|"* ]] && die "$(python_remedy)"
  die "still missing after the installation: $(needs_named "$missing")"
}
