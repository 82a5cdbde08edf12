# shellcheck shell=bash
# What quickstart, test and .ci/run share. Source it; it sets `root` and stands in that folder afterwards.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1

if [ -t 2 ]; then bold=$'\033[1m' plain=$'\033[0m'; else bold='' plain=''; fi
say() { printf '%s\n' "${bold}==> $*${plain}" >&2; }
fail() { printf '%s\n' "launch: $*" >&2; exit 1; }

# run COMMAND...: in a process group of its own, so that one signal to this script becomes exactly one signal to
# all of the command (mpirun then ends its ranks), and the script waits for it.
child=
run() {
  local status=0
  set -m
  "$@" </dev/null &
  child=$!
  set +m
  wait "$child" || status=$?
  child=
  return "$status"
}
stop() {  # signal, exit code
  trap '' INT TERM HUP
  if [ -n "$child" ]; then
    kill -s "$1" -- "-$child" 2>/dev/null
    wait "$child" 2>/dev/null
    kill -s TERM -- "-$child" 2>/dev/null  # whoever of the group ignored the signal
  fi
  exit "$2"
}
trap 'stop INT 130' INT
trap 'stop TERM 143' TERM
trap 'stop TERM 129' HUP

cores() { nproc 2>/dev/null || getconf _NPROCESSORS_ONLN; }

# A C++ compile of ours takes up to about 1.5 GiB: fewer at a time where memory is short.
build_jobs() {
  local jobs memory
  jobs=$(cores)
  memory=$(awk '/^MemAvailable:/ { print int($2 / 1572864) }' /proc/meminfo 2>/dev/null || echo "$jobs")
  if [ "${memory:-$jobs}" -lt "$jobs" ]; then jobs=$memory; fi
  if [ "$jobs" -lt 1 ]; then jobs=1; fi
  echo "$jobs"
}

# missing_packages GROUP...: those of launch/packages that are neither installed nor replaced by a program in PATH.
missing_packages() {
  local group package program
  while read -r group package program; do
    case " $* " in *" $group "*) ;; *) continue ;; esac
    case $(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null) in ii*) continue ;; esac
    if [ -n "$program" ] && command -v "$program" >/dev/null 2>&1; then continue; fi
    echo "$package"
  done < <(grep -v '^#' launch/packages)
}

# install_packages GROUP...: installs only what is missing; without the right to, says exactly what to ask for.
install_packages() {
  if [ "${VAECF_SKIP_PACKAGES:-0}" = 1 ]; then return; fi
  if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
    say "not a Debian or Ubuntu system: going on with what is here (launch/packages lists what is needed)"
    return
  fi
  local packages as_root=()
  mapfile -t packages < <(missing_packages "$@")
  if [ "${#packages[@]}" -eq 0 ]; then return; fi
  local line="apt-get install --no-install-recommends ${packages[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
      fail "packages are missing, and there is neither root nor sudo. Ask an administrator for:
    $line
  or, where their contents are installed in another way, set VAECF_SKIP_PACKAGES=1."
    fi
    if ! sudo -n true 2>/dev/null && [ ! -t 0 ]; then
      fail "packages are missing, and sudo wants a password, which cannot be asked for here. Run first:
    sudo $line"
    fi
    as_root=(sudo)
  fi
  say "installing ${packages[*]}"
  # sudo may ask for a password: in the foreground, where the terminal is.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update ||
    say "apt-get update failed: trying with the lists that are here"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o=Dpkg::Use-Pty=0 -y \
    install --no-install-recommends "${packages[@]}" >&2 ||
    fail "installing packages failed (see above). By hand: $line"
}

# at_least HAVE WANTED: version numbers.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

check_tools() {
  local tool have
  for tool in cmake ninja "${CXX:-c++}" mpirun; do
    command -v "$tool" >/dev/null 2>&1 ||
      fail "$tool is not in PATH. Debian and Ubuntu: apt-get install $(awk -v t="$tool" '$3 == t { print $2 }' launch/packages)"
  done
  have=$(cmake --version | awk 'NR == 1 { print $3 }')
  at_least "$have" 3.25 ||
    fail "cmake is $have, needed is 3.25 (Debian 12 and Ubuntu 24.04 have it; elsewhere: pip install cmake)"
  have=$("${CXX:-c++}" -dumpfullversion 2>/dev/null || "${CXX:-c++}" -dumpversion)
  if "${CXX:-c++}" --version | grep -q "Free Software" && ! at_least "$have" 12; then
    fail "g++ is $have, needed is 12 for C++20: name a newer one in the variable CXX"
  fi
}

# configured FOLDER: whether it holds a finished configuration of this very tree.
configured() {
  [ -f "$1/build.ninja" ] && [ "$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$1/CMakeCache.txt")" = "$root" ]
}

# configure FOLDER ARGUMENTS...: a folder that came along with a copied or moved tree, or whose configuration broke
# off, starts afresh.
configure() {
  local folder=$1
  shift
  if [ -f "$folder/CMakeCache.txt" ] && ! configured "$folder"; then
    say "$folder holds no finished configuration of this tree: starting afresh"
    rm -rf "$folder"
  fi
  run cmake -S . -B "$folder" "$@" >&2 || fail "configuring failed: the lines above say what is missing"
}

# mpi_settings RANKS: prepares the environment and the array `mpi` for `RANKS` ranks on this one machine.
mpi_settings() {
  local ranks=$1 threads
  threads=$(($(cores) / ranks))
  if [ "$threads" -lt 1 ]; then threads=1; fi
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$threads}
  mpi=(mpirun -np "$ranks")
  if mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    # By default two ranks would be bound to one core each, and a machine that counts one slot would refuse them.
    mpi+=(--bind-to none --oversubscribe)
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # Without ssh Open MPI looks for a way to other machines that nobody asked for.
    if ! command -v ssh >/dev/null 2>&1 && ! command -v rsh >/dev/null 2>&1; then
      export OMPI_MCA_plm=${OMPI_MCA_plm:-isolated}
    fi
  fi
  # Spinning at barriers is ruinous where ranks share cores.
  if [ "$(cores)" -lt $((ranks * OMP_NUM_THREADS)) ]; then export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}; fi
}
