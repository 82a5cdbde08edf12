# shellcheck shell=bash
# What the scripts here and .ci/run share. Source it; it sets `root` and stands in that folder afterwards.

unset CDPATH  # with it cd says where it went, and may go elsewhere
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1

if [ -t 2 ]; then bold=$'\033[1m' plain=$'\033[0m'; else bold='' plain=''; fi
say() { printf '%s\n' "${bold}==> $*${plain}" >&2; }
fail() { printf '%s\n' "launch: $*" >&2; exit 1; }

# run COMMAND...: in a process group of its own, so that one signal to this script becomes exactly one signal to
# all of the command (mpirun then ends its ranks), and the script waits for it.
child=
gentle=
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

# run_gently COMMAND...: for training. The first TERM, INT or HUP to this script becomes USR1 to the command (mpirun
# hands it on to all ranks): they write a checkpoint and end with 75, which is this function's result then. Another
# INT ends everything at once; further TERMs do nothing, as whoever ends a whole group often sends several.
run_gently() {
  local status=0
  gentle=yes
  # Ctrl-C may well have ended whoever reads what is said from here on, as in `launch/train ... | tee log`.
  trap '' PIPE
  start "$@"
  started=$SECONDS
  while :; do
    signalled=
    status=0
    wait "$child" || status=$?
    # A signal to this script ends the wait, not the command.
    if [ -z "$signalled" ]; then break; fi
    pass_request_on
  done
  child=
  gentle=
  return "$status"
}

# USR1 ends a program that is only just starting, or is lost on it.
seconds_to_start=${VAECF_SECONDS_TO_START:-3}
pass_request_on() {
  while [ $((SECONDS - started)) -le "$seconds_to_start" ] && ! ended "$child"; do sleep 0.1; done
  # Of several requests in a row one counts.
  if [ "$gentle" = passed ] && [ $((SECONDS - passed)) -lt 10 ]; then return; fi
  gentle=passed
  passed=$SECONDS
  kill -s USR1 "$child" 2>/dev/null || true
}

signalled=
on_signal() {  # signal, exit code
  if [ -z "$gentle" ] || [ -z "$child" ]; then stop "$1" "$2"; fi
  signalled=yes
  if [ "$gentle" = yes ]; then
    gentle=asked
    say "stopping at the next step, with a checkpoint; press Ctrl-C to end at once" || true
  elif [ "$1" = INT ]; then
    say "ending at once" || true
    stop TERM "$2"
  fi
}
# mpirun gives its ranks one second between TERM and KILL.
seconds_to_obey=5
seconds_to_end=3
stop() {  # signal, exit code
  trap '' INT TERM HUP USR1
  if [ -n "$child" ]; then
    local family
    family=$(descendants "$child" || true)
    kill -s "$1" -- "-$child" 2>/dev/null || true
    await_end "$seconds_to_obey"
    kill -s TERM -- "-$child" 2>/dev/null || true  # whoever of the group ignored the signal
    await_end "$seconds_to_end"
    if ! ended "$child"; then
      # shellcheck disable=SC2086
      kill -s KILL -- "-$child" $family 2>/dev/null || true
    fi
    wait "$child" 2>/dev/null || true
  fi
  exit "$2"
}
await_end() {  # seconds
  local tenths
  for ((tenths = $1 * 10; tenths > 0; --tenths)); do
    if ended "$child"; then return; fi
    sleep 0.1
  done
}
# A process that is gone, or that only waits to be collected.
ended() { ! grep -q '^State:[[:space:]]*[^ZX]' "/proc/$1/status" 2>/dev/null; }
# All processes below one: mpirun gives its ranks groups of their own.
descendants() {
  { cat /proc/[0-9]*/stat 2>/dev/null || true; } | awk -v of="$1" '
    { id = $1; sub(/^.*\) [^ ]+ /, ""); parent[id] = $1 }
    END {
      do {
        found = 0
        for (id in parent) if ((parent[id] == of || parent[id] in below) && !(id in below)) { below[id]; found = 1 }
      } while (found)
      for (id in below) print id
    }'
}
trap 'on_signal INT 130' INT
trap 'on_signal TERM 143' TERM
trap 'on_signal HUP 129' HUP
trap 'on_signal TERM 138' USR1

# find_program FILE: sets `program` to it, or, where it is empty, to vaecf_dist as built here or installed. `here` is
# where the user stands, `wrong` what complains.
find_program() {
  program=$1
  if [ -z "$program" ]; then
    for program in "$root/build/release/bin/vaecf_dist" "$root/build/cuda/bin/vaecf_dist" vaecf_dist; do
      if command -v "$program" >/dev/null 2>&1; then break; fi
    done
  fi
  (cd "$here" && command -v "$program" >/dev/null 2>&1) ||
    wrong "$program is not there: build it (launch/quickstart does), or name it with --program"
}

# nproc would take OMP_NUM_THREADS for the number of cores.
cores() { env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || getconf _NPROCESSORS_ONLN; }

# GPUs that a rank may use. nvidia-smi lists all, CUDA_VISIBLE_DEVICES the visible ones up to the first that is none.
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

# A C++ compile of ours takes up to about 1.5 GiB: fewer at a time where memory is short.
build_jobs() {
  local jobs memory
  if [ -n "${CMAKE_BUILD_PARALLEL_LEVEL:-}" ]; then echo "$CMAKE_BUILD_PARALLEL_LEVEL"; return; fi
  jobs=$(cores)
  # A container may have less than its host.
  memory=$(awk '/^MemAvailable:/ { kib = $2 } FILENAME ~ /memory.max/ && $1 ~ /^[0-9]+$/ && $1 / 1024 < kib { kib = $1 / 1024 }
    END { print int(kib / 1572864) }' /proc/meminfo $(ls /sys/fs/cgroup/memory.max 2>/dev/null) 2>/dev/null || echo "$jobs")
  if [ "${memory:-$jobs}" -lt "$jobs" ]; then jobs=$memory; fi
  if [ "$jobs" -lt 1 ]; then jobs=1; fi
  echo "$jobs"
}

# missing_packages GROUP...: those of launch/packages that are neither installed nor replaced by a program in PATH.
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

# install_packages GROUP...: installs only what is missing; without the right to, says exactly what to ask for.
install_packages() {
  if [ "${VAECF_SKIP_PACKAGES:-0}" = 1 ]; then return; fi
  if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
    say "not a Debian or Ubuntu system: going on with what is here (launch/packages lists what is needed)"
    return
  fi
  local packages as_root=() kept=() name
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
    # What sudo would not hand on.
    for name in http_proxy https_proxy no_proxy; do
      if [ -n "${!name:-}" ]; then kept+=("$name=${!name}"); fi
    done
  fi
  say "installing ${packages[*]}"
  # sudo may ask for a password: in the foreground, where the terminal is.
  "${as_root[@]}" env ${kept[@]+"${kept[@]}"} DEBIAN_FRONTEND=noninteractive apt-get -qq update ||
    say "apt-get update failed: trying with the lists that are here"
  "${as_root[@]}" env ${kept[@]+"${kept[@]}"} DEBIAN_FRONTEND=noninteractive apt-get -qq -o=Dpkg::Use-Pty=0 -y \
    install --no-install-recommends "${packages[@]}" >&2 ||
    fail "installing packages failed (see above). By hand: $line"
}

# at_least HAVE WANTED: version numbers.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# What cmake would not say of itself: which package a program is of, and that a compiler is too old.
check_tools() {
  local tool have
  for tool in cmake ninja "${CXX:-c++}" mpirun; do
    command -v "$tool" >/dev/null 2>&1 ||
      fail "$tool is not in PATH. Debian and Ubuntu: apt-get install $(awk -v t="$tool" '$3 == t { print $2 }' launch/packages)"
  done
  have=$("${CXX:-c++}" -dumpfullversion 2>/dev/null || "${CXX:-c++}" -dumpversion)
  if "${CXX:-c++}" --version | grep -q "Free Software" && ! at_least "$have" 12; then
    fail "g++ is $have, needed is 12 for C++20: name a newer one in the variable CXX"
  fi
}

# configure FOLDER ARGUMENTS...: several files are compiled at once, and more where cores are few: most of the time goes
# to what files share. A folder keeps what it was made with.
configure() {
  local folder=$1 units=() at_once=6
  shift
  case $(cores) in
    1 | 2) at_once=64 ;;
    3 | 4) at_once=16 ;;
  esac
  if [ ! -f "$folder/CMakeCache.txt" ]; then units=(-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=$at_once); fi
  run cmake -S . -B "$folder" ${units[@]+"${units[@]}"} "$@" >&2 ||
    fail "configuring failed: the lines above say what is missing; remove $folder if it is of another tree"
}

# build_program FOLDER ARGUMENTS...: vaecf_dist alone, with these arguments for cmake.
build_program() {
  local folder=$1 tests=()
  shift
  check_tools
  # A folder that launch/test made also holds the tests: leave them in, build only the program.
  if [ ! -f "$folder/CMakeCache.txt" ]; then tests=(-DVAECF_TESTS=OFF); fi
  configure "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release "${tests[@]}" "$@"
  say "building $folder/bin/vaecf_dist"
  run cmake --build "$folder" -j "$(build_jobs)" --target vaecf_dist >&2 || fail "the build failed"
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
