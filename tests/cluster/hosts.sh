# shellcheck shell=bash disable=SC2034
# Two or three hosts on one machine, for tests. After sourcing, `own_world VARIABLE "$0" "$@"` restarts the script in
# separate process, mount, host-name and network namespaces. They isolate it from other programs, and all its processes
# and files are removed when it ends for any reason. Sets `work`, an empty folder, `program` and `root`. Needs root,
# iproute2 and util-linux.

fail() {
  printf 'FAILED: %s\n' "$*"
  for log in "$work"/*.log "$work"/slurm/*.log; do
    if [ -e "$log" ]; then printf -- '-- %s\n' "${log##*/}"; tail -n 25 "$log"; fi
  done
  exit 1
}

# skip VARIABLE REASON: ends the test as skipped; with VARIABLE=1 it fails.
skip() {
  if [ "${!1:-0}" = 1 ]; then printf 'FAILED: %s=1, but %s\n' "$1" "$2"; exit 1; fi
  printf 'SKIPPED: %s\n' "$2"
  exit 77
}

# needs VARIABLE PROGRAM...: skips the test unless all programs are installed.
needs() {
  local program
  for program in "${@:2}"; do
    command -v "$program" >/dev/null 2>&1 || skip "$1" "$program is not installed (launch/packages, group cluster)"
  done
}

own_world() {  # VARIABLE SCRIPT ARGUMENTS...
  local variable=$1
  shift
  PATH=$PATH:/usr/sbin:/sbin
  if [ -z "${VAECF_OWN_WORLD:-}" ]; then
    [ "$(id -u)" -eq 0 ] || skip "$variable" 'namespaces and network links need root'
    needs "$variable" unshare nsenter ip tc mount
    unshare --mount --pid --fork --net --uts --ipc true 2>/dev/null ||
      skip "$variable" 'this container does not permit namespaces (docker: --privileged)'
    VAECF_OWN_WORLD=1 exec unshare --mount --pid --fork --kill-child=KILL --mount-proc --net --uts --ipc "$BASH" "$@"
  fi
  # This is now process 1 of its namespace, which only receives signals that it handles.
  trap 'exit 130' INT
  trap 'exit 143' TERM
  # Private tmpfs, as small as in containers.
  mount -t tmpfs -o size=64m shm /dev/shm || skip "$variable" 'no tmpfs can be mounted'
  mount -t tmpfs -o size=512m,mode=755 run /run || skip "$variable" 'no tmpfs can be mounted'
  work=/run/world
  mkdir -p "$work/tmp"
  export TMPDIR=$work/tmp
  program=$(realpath "$2")
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  export OMP_NUM_THREADS=1 VAECF_PROGRESS=none OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

# small_run EPOCHS [KEYS]: creates data.h5, and c.yaml, which trains on it with one batch size on any number of hosts.
small_run() {
  cd "$work" || exit 1
  cat >c.yaml <<TEXT
data: {file: data.h5}
device: cpu
model: {hidden: [64], latent: 16}
train: {epochs: $1, batch_size: 100, precision: fp32}
evaluation: {metrics: [ndcg@100]}
${2:-}
TEXT
  "$program" synthesize data.h5 --users 1500 --items 1000 --seed 3 >data.log 2>&1 || fail 'synthesize failed'
}

# cut_link LINK COMMAND...: starts a long training run named `cut`, cuts the link after its first epoch, and waits until the run
# and, 30 s later at most, all its processes have ended. Sets `code`, the exit code.
cut_link() {
  local link=$1 job begin took
  "${@:2}" --train --set name=cut --set train.epochs=100000 >cut.log 2>&1 &
  job=$!
  await 60 grep -qs '"event":"epoch"' runs/cut/metrics.jsonl || fail 'training did not start'
  [ "$(of_a_run | wc -l)" -ge 4 ] || fail "expected mpirun, its daemon and two ranks, got: $(of_a_run)"
  ip link set "$link" down
  begin=$SECONDS
  ended() { ! kill -0 "$job" 2>/dev/null; }
  await 60 ended || fail "the run did not end after the link was cut: $(of_a_run)"
  wait "$job"
  code=$?
  took=$((SECONDS - begin))
  nobody_left() { ! of_a_run >/dev/null; }
  await 30 nobody_left || fail "left behind: $(of_a_run)"
  echo "link cut: exit code $code after $took s, no process left after $((SECONDS - begin)) s; $(mpirun --version | head -n 1)"
}

# two_hosts VARIABLE: creates hosts n1 (this script) and n2, connected by a link n1:eth0 to n2:eth0.
two_hosts() {  # VARIABLE
  hostname n1
  printf '127.0.0.1 localhost\n10.77.0.1 n1\n10.77.0.2 n2\n10.78.0.2 n3\n' >"$work/hosts"
  mount --bind "$work/hosts" /etc/hosts
  ip link set lo up
  add_host "$1" n2 eth0 10.77.0
}
# three_hosts VARIABLE: also creates n3, with a link n1:eth1 to n3:eth0. Messages between n2 and n3 pass through n1.
three_hosts() {  # VARIABLE
  two_hosts "$1"
  add_host "$1" n3 eth1 10.78.0
  echo 1 >/proc/sys/net/ipv4/ip_forward
  on n2 ip route add default via 10.77.0.1
  on n3 ip route add default via 10.78.0.1
}
add_host() {  # VARIABLE HOST LINK NETWORK
  : >"$work/$2.net"
  : >"$work/$2.uts"
  unshare "--net=$work/$2.net" "--uts=$work/$2.uts" hostname "$2"
  ip link add "$3" type veth peer name eth0 netns "$work/$2.net" 2>/dev/null ||
    skip "$1" 'the kernel does not support links between namespaces (veth)'
  ip address add "$4.1/24" dev "$3"
  ip link set "$3" up
  on "$2" ip link set lo up
  on "$2" ip address add "$4.2/24" dev eth0
  on "$2" ip link set eth0 up
}
# on HOST COMMAND...: runs a command on n2 or n3.
on() { nsenter "--net=$work/$1.net" "--uts=$work/$1.uts" -- "${@:2}"; }

# slow_link VARIABLE RATE: limits the bandwidth of the link in both directions.
slow_link() {
  local limit=(qdisc replace dev eth0 root tbf rate "$2" burst 64kb latency 400ms)
  if ! tc "${limit[@]}" || ! on n2 tc "${limit[@]}"; then skip "$1" 'the kernel cannot limit the bandwidth of a link (tc tbf)'; fi
}
fast_link() {
  tc qdisc delete dev eth0 root
  on n2 tc qdisc delete dev eth0 root
}
bytes_sent() { sed -n 's/^ *eth0://p' /proc/net/dev | awk '{ print $9 }'; }

# mpi_over_hosts: sets `mpi_hosts` for mpirun on n1 over all hosts: mpirun "${mpi_hosts[@]}" -np N --host n1:1,n2:1 ...
mpi_over_hosts() {
  cat >"$work/agent" <<TEXT
#!/bin/sh
# Replaces ssh: HOST COMMAND...
host=\$1
[ -e "$work/\$host.net" ] || exit 1
shift
exec nsenter "--net=$work/\$host.net" "--uts=$work/\$host.uts" -- sh -c "\$*"
TEXT
  chmod +x "$work/agent"
  mpi_hosts=(--mca plm rsh --mca plm_rsh_agent "$work/agent")
  case $(mpirun --version 2>/dev/null) in
    *') 4.'*) ;;
    *) mpi_hosts=(--prtemca plm ssh --prtemca plm_ssh_agent "$work/agent") ;;
  esac
}

# of_a_run: lists the processes of a run.
# shellcheck disable=SC2009
of_a_run() { ps -e -o pid=,comm= | grep -E ' (vaecf_dist|orted|prted|mpirun|prterun)'; }

# shellcheck source=../support/await.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/await.sh"
# shellcheck source=../support/curve.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/curve.sh"
