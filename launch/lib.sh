# shellcheck shell=bash
# Functions shared by the scripts here and .ci/run, to be sourced. Sets `root` to the repository and changes to it.

unset CDPATH  # with CDPATH, cd prints the folder and may choose another one
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
# shellcheck source=watch.sh
. "$root/launch/watch.sh"

if [ -t 2 ]; then bold=$'\033[1m' plain=$'\033[0m'; else bold='' plain=''; fi
say() { printf '%s\n' "${bold}==> $*${plain}" >&2; }
fail() { printf '%s\n' "launch: $*" >&2; exit 1; }

# run COMMAND...: runs the command in a separate process group and waits for it, so that one signal to this script
# becomes exactly one signal to all processes of the command (mpirun then ends its ranks).
child=
graceful=
run() {
  local status=0
  start "$@"
  wait "$child" || status=$?
  child=
  return "$status"
}
start() {
  set -m
  "$@" </dev/null &
  child=$!
  set +m
}

# run_with_graceful_stop COMMAND...: runs mpirun with a training command, see watch.sh, with a graceful stop. The first TERM, INT or HUP to this script becomes
# USR1 to the command, which mpirun forwards to all ranks: they write a checkpoint and exit with 75, which this function
# returns. A second INT ends everything immediately. Further TERMs are ignored, because job managers often send several.
run_with_graceful_stop() {
  local status=0
  graceful=yes
  # Ctrl-C may also have ended the reader of the output, as in `launch/train ... | tee log`.
  trap '' PIPE
  start_watched "$@"
  started=$SECONDS
  while :; do
    signaled=
    status=0
    wait "$child" || status=$?
    # A signal to this script ends `wait`, but not the command.
    if [ -z "$signaled" ]; then break; fi
    pass_request_on
  done
  end_watch
  child=
  graceful=
  return "$status"
}

# USR1 would end a program that is still starting, or be ignored by it.
seconds_to_start=$(number_of VAECF_SECONDS_TO_START 3) || exit
pass_request_on() {
  while [ $((SECONDS - started)) -le "$seconds_to_start" ] && ! ended "$child"; do sleep 0.1; done
  # Repeated requests within 10 s count once.
  if [ "$graceful" = passed ] && [ $((SECONDS - passed)) -lt 10 ]; then return; fi
  graceful=passed
  passed=$SECONDS
  kill -s USR1 "$child" 2>/dev/null || true
}

signaled=
on_signal() {  # signal, exit code
  if [ -z "$graceful" ] || [ -z "$child" ]; then stop "$1" "$2"; fi
  signaled=yes
  if [ "$graceful" = yes ]; then
    graceful=asked
    say "stopping after this step with a checkpoint; press Ctrl-C again to end immediately" || true
  elif [ "$1" = INT ]; then
    say "ending immediately" || true
    stop TERM "$2"
  fi
}
# mpirun sends its ranks KILL one second after TERM.
seconds_to_obey=5
seconds_to_end=3
stop() {  # signal, exit code
  trap '' INT TERM HUP USR1
  if [ -n "$child" ]; then
    local family
    family=$(descendants "$child" || true)
    kill -s "$1" -- "-$child" 2>/dev/null || true
    wait_until_ended "$seconds_to_obey" "$child"
    kill -s TERM -- "-$child" 2>/dev/null || true  # processes of the group that ignored the signal
    wait_until_ended "$seconds_to_end" "$child"
    if ! ended "$child"; then
      # shellcheck disable=SC2086
      kill -s KILL -- "-$child" $family 2>/dev/null || true
    fi
    wait "$child" 2>/dev/null || true
  fi
  exit "$2"
}
trap 'on_signal INT 130' INT
trap 'on_signal TERM 143' TERM
trap 'on_signal HUP 129' HUP
trap 'on_signal TERM 138' USR1

# find_program FILE: sets `program` to FILE or, if that is empty, to the variable VAECF_PROGRAM, or else to vaecf_dist as
# installed with this script, as built here, or in PATH. Requires `here`, the folder of the user, and the function `usage_error`.
find_program() {
  local prefix=${root%/share/vaecf_dist}
  program=${1:-${VAECF_PROGRAM:-}}
  if [ -z "$program" ] && [ "$prefix" != "$root" ] && [ -x "$prefix/bin/vaecf_dist" ]; then
    program=$prefix/bin/vaecf_dist
    # In a bundle and in the environment of a wheel, mpirun is next to the program; but a module's MPI may replace it.
    case $(ldd "$program" 2>/dev/null | awk '$1 ~ /^libmpi\./ { print $3 }') in '' | "$prefix"/*) PATH=$prefix/bin:$PATH ;; esac
  fi
  if [ -z "$program" ]; then
    for program in "$root/build/release/bin/vaecf_dist" "$root/build/cuda/bin/vaecf_dist" vaecf_dist; do
      if command -v "$program" >/dev/null 2>&1; then break; fi
    done
  fi
  (cd "$here" && command -v "$program" >/dev/null 2>&1) ||
    usage_error "$program does not exist; build it (launch/build), or set --program or VAECF_PROGRAM"
}

# find_python MODULE...: sets `python` to a Python of at least 3.11 that can import these modules, also those of python/;
# fails if there is none. VAECF_PYTHON names the only one to try. Run it with -P, or the current folder is searched first.
python_packages='python3 python3-yaml python3-numpy python3-scipy python3-pandas python3-h5py python3-matplotlib'
find_python() {
  local modules=$*
  export PYTHONPATH=$root/python${PYTHONPATH:+:$PYTHONPATH}
  local candidates=(python3 /usr/bin/python3)
  if [ -n "${VAECF_PYTHON:-}" ]; then candidates=("$VAECF_PYTHON"); fi
  for python in "${candidates[@]}"; do
    # -P: Python 3.11 imports nothing from the current folder, and older ones refuse the option.
    if "$python" -P -c "import ${modules// /, }" >/dev/null 2>&1; then return; fi
  done
  return 1
}

# package_version: prints the version of the program and of its Python package.
package_version() { sed -n 's/^__version__ = "\(.*\)"$/\1/p' python/vaecf/__init__.py; }

# cores: prints the number of cores within the CPU limit, as the program counts them. nproc would print OMP_NUM_THREADS instead.
cores() {
  local all limit
  all=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
  limit=$(cpu_limit '')
  echo "$((${limit:-$all} < all ? limit : all))"
}

# cpu_limit [TOP]: prints the CPU limit in whole cores, at least 1: the smallest quota of this process's control group and all
# groups around it, in version 1 and 2. Prints nothing if there is none. TOP replaces / in tests.
cpu_limit() {
  local top=${1:-} controllers group folder
  { cat "$top/proc/self/cgroup" 2>/dev/null; printf '0::/\n0:cpu:/\n'; } | while IFS=: read -r _ controllers group; do
    case ,$controllers, in ,,) folder=$top/sys/fs/cgroup ;; *,cpu,*) folder=$top/sys/fs/cgroup/cpu ;; *) continue ;; esac
    group=${group%/}
    while :; do
      # QUOTA PERIOD: in one file in version 2, in two in version 1.
      # shellcheck disable=SC2005,SC2046
      echo $(cd "$folder$group" 2>/dev/null && cat cpu.max cpu.cfs_quota_us cpu.cfs_period_us 2>/dev/null)
      case $group in */*) group=${group%/*} ;; *) break ;; esac
    done
  done | awk '$1 > 0 && $2 > 0 { cores = $1 < $2 ? 1 : int($1 / $2 + 1e-6); if (!least || cores < least) least = cores }
    END { if (least) print least }'
}

# gpus: prints the number of usable GPUs: those of nvidia-smi that CUDA_VISIBLE_DEVICES lists before its first invalid
# entry.
gpus() {
  local all number=0 gpu
  all=$( (nvidia-smi -L 2>/dev/null || true) | grep -c '^GPU' || true)
  if [ -z "${CUDA_VISIBLE_DEVICES+set}" ]; then echo "$all"; return; fi
  for gpu in ${CUDA_VISIBLE_DEVICES//,/ }; do
    case $gpu in -*) break ;; *[!0-9]*) ;; *) if [ "$gpu" -ge "$all" ]; then break; fi ;; esac
    number=$((number + 1))
  done
  echo "$((number < all ? number : all))"
}

# slots: prints the number of slots in the hostfile that the environment names to Open MPI; nothing without one, or if a
# host has no slots=.
slots() {
  local file=${PRTE_MCA_prte_default_hostfile:-${OMPI_MCA_orte_default_hostfile:-}}
  if [ ! -r "$file" ]; then return; fi
  awk '/^[[:space:]]*(#|$)/ { next } !sub(/.*[[:space:]]slots=/, "") { all = 0; exit } { all += $1 } END { if (all) print all }' "$file"
}

# build_jobs: prints the number of parallel compile jobs: one per core, but at most one per 1.5 GiB of memory.
build_jobs() {
  local jobs memory
  if [ -n "${CMAKE_BUILD_PARALLEL_LEVEL:-}" ]; then echo "$CMAKE_BUILD_PARALLEL_LEVEL"; return; fi
  jobs=$(cores)
  # The limit of a container may be lower than the memory of the host.
  memory=$(awk '/^MemAvailable:/ { kib = $2 } FILENAME ~ /memory.max/ && $1 ~ /^[0-9]+$/ && $1 / 1024 < kib { kib = $1 / 1024 }
    END { print int(kib / 1572864) }' /proc/meminfo $(ls /sys/fs/cgroup/memory.max 2>/dev/null) 2>/dev/null || echo "$jobs")
  if [ "${memory:-$jobs}" -lt "$jobs" ]; then jobs=$memory; fi
  if [ "$jobs" -lt 1 ]; then jobs=1; fi
  echo "$jobs"
}

# missing_packages GROUP...: lists packages that are not installed, unless the program that replaces them is in PATH.
missing_packages() {
  local group package program release installed
  release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release 2>/dev/null || true)
  installed=$(dpkg-query -W -f ':${Package}:${db:Status-Abbrev}\n' 2>/dev/null || true)
  while read -r group package program; do
    case " $* " in *" ${group%"-$release"} "*) ;; *) continue ;; esac
    case $installed in *":$package:ii"*) continue ;; esac
    if [ -n "$program" ] && command -v "$program" >/dev/null 2>&1; then continue; fi
    echo "$package"
  done < <(grep -v '^#' launch/packages)
}

# install_packages GROUP...: installs missing packages. Without root permission, fails with the command to run.
install_packages() {
  if [ "${VAECF_SKIP_PACKAGES:-0}" = 1 ]; then return; fi
  if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
    say "not a Debian or Ubuntu system: no packages are installed (launch/packages lists those needed)"
    return
  fi
  local packages as_root=() kept=() name
  mapfile -t packages < <(missing_packages "$@")
  if [ "${#packages[@]}" -eq 0 ]; then return; fi
  local line="apt-get install --no-install-recommends ${packages[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
      fail "packages are missing, and sudo is not installed. Ask an administrator to run:
    $line
  or, if their contents are installed in another way, set VAECF_SKIP_PACKAGES=1."
    fi
    if ! sudo -n true 2>/dev/null && [ ! -t 0 ]; then
      fail "packages are missing, and sudo needs a password, but there is no terminal. Run first:
    sudo $line"
    fi
    as_root=(sudo)
    # sudo does not pass these variables on.
    for name in http_proxy https_proxy no_proxy; do
      if [ -n "${!name:-}" ]; then kept+=("$name=${!name}"); fi
    done
  fi
  say "installing ${packages[*]}"
  # In the foreground, because sudo may ask for a password.
  "${as_root[@]}" env ${kept[@]+"${kept[@]}"} DEBIAN_FRONTEND=noninteractive apt-get -qq update ||
    say "apt-get update failed; using the existing package lists"
  "${as_root[@]}" env ${kept[@]+"${kept[@]}"} DEBIAN_FRONTEND=noninteractive apt-get -qq -o=Dpkg::Use-Pty=0 -y \
    install --no-install-recommends "${packages[@]}" >&2 ||
    fail "installing packages failed (see above); run it by hand: $line"
}

# at_least VERSION MINIMUM: succeeds if VERSION is at least MINIMUM.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# check_tools: fails if a build tool is missing, naming its package, or if g++ is too old.
check_tools() {
  local tool have
  for tool in cmake ninja "${CXX:-c++}" mpirun; do
    command -v "$tool" >/dev/null 2>&1 ||
      fail "$tool is not in PATH; on Debian and Ubuntu run: apt-get install $(awk -v t="$tool" '$3 == t { print $2 }' launch/packages)"
  done
  have=$("${CXX:-c++}" -dumpfullversion 2>/dev/null || "${CXX:-c++}" -dumpversion)
  if "${CXX:-c++}" --version | grep -q "Free Software" && ! at_least "$have" 12; then
    fail "g++ must be at least 12, for C++20, got $have; set the variable CXX to a newer one"
  fi
}

# configure FOLDER ARGUMENTS...: configures a build folder. New folders use unity builds, with larger batches on fewer
# cores, because most compile time is spent in shared headers. Existing folders keep their settings.
configure() {
  local folder=$1 units=() at_once=6
  shift
  case $(cores) in
    1 | 2) at_once=64 ;;
    3 | 4) at_once=16 ;;
  esac
  if [ ! -f "$folder/CMakeCache.txt" ]; then units=(-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=$at_once); fi
  run cmake -S . -B "$folder" ${units[@]+"${units[@]}"} "$@" >&2 ||
    fail "configuring failed (see above); remove $folder if it belongs to another source tree"
}

# cuda_settings FOLDER [TOP]: sets the array `cuda` to arguments of `configure` for a new build folder: without an NVIDIA
# driver no CUDA code, which takes minutes to compile, and otherwise code for the GPUs of this machine only. TOP replaces /
# in tests.
cuda_settings() {
  cuda=()
  if [ -f "$1/CMakeCache.txt" ]; then return; fi
  if [ -e "${2:-}/proc/driver/nvidia/version" ] || nvidia-smi >/dev/null 2>&1; then
    cuda=(-DVAECF_CUDA_ARCHITECTURES=native)
  else
    cuda=(-DVAECF_CUDA=OFF)
    say "no NVIDIA driver found: building for CPUs only; to build the CUDA code as well, run launch/build -DVAECF_CUDA=ON"
  fi
}

# build_program FOLDER ARGUMENTS...: builds only vaecf_dist and libvaecf.so, with these arguments for cmake.
build_program() {
  local folder=$1 tests=()
  shift
  check_tools
  # A folder of launch/test has the tests enabled; they stay enabled, but are not built.
  if [ ! -f "$folder/CMakeCache.txt" ]; then tests=(-DVAECF_TESTS=OFF); fi
  configure "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release "${tests[@]}" "$@"
  say "building $folder/bin/vaecf_dist"
  run cmake --build "$folder" -j "$(build_jobs)" --target vaecf_dist vaecf >&2 || fail "the build failed"
}

# mpi_settings RANKS: sets the environment and the array `mpi` for RANKS ranks on this machine, or on the hosts that the
# environment names to Open MPI.
mpi_settings() {
  local ranks=$1 threads given=${OMP_NUM_THREADS:-} hosts
  # Other hosts may have another number of cores; there the program chooses the number of threads.
  hosts=${OMPI_MCA_orte_default_hostfile:-}${OMPI_MCA_orte_default_dash_host:-}
  hosts+=${PRTE_MCA_prte_default_hostfile:-}${PRTE_MCA_prte_default_dash_host:-}
  threads=$(($(cores) / ranks))
  if [ "$threads" -lt 1 ]; then threads=1; fi
  if [ -z "$given$hosts" ]; then export OMP_NUM_THREADS=$threads; fi
  # OpenMP permits a list, for nested levels.
  threads=$(OMP_NUM_THREADS=${given%%,*} number_of OMP_NUM_THREADS "$threads") || exit
  mpi=(mpirun -np "$ranks")
  if mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    # By default, Open MPI binds each of two ranks to one core, and rejects more ranks than slots.
    mpi+=(--bind-to none --oversubscribe)
    if [ -n "$given" ]; then mpi+=(-x OMP_NUM_THREADS); fi
    if [ -n "${VAECF_RUN_ID:-}" ]; then mpi+=(-x VAECF_RUN_ID); fi
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # Without ssh, Open MPI searches for a launcher for other machines, which is not needed here.
    if ! command -v ssh >/dev/null 2>&1 && ! command -v rsh >/dev/null 2>&1; then
      export OMPI_MCA_plm=${OMPI_MCA_plm:-isolated}
    fi
  fi
  # Spinning at barriers is very slow if ranks share cores.
  if [ -z "$hosts" ] && [ "$(cores)" -lt $((ranks * threads)) ]; then export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}; fi
}
