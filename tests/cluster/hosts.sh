# shellcheck shell=bash disable=SC2034
# Two hosts on one machine, for tests. Source it, then `own_world VARIABLE "$0" "$@"`: the script starts again with
# processes, mounts, host name and network of its own. So nothing of it meets other programs, and all of it, processes
# and files, is gone when it ends, however it ends. Sets `work`, an empty folder. Needs root, iproute2 and util-linux.

# skip VARIABLE REASON: ctest shows the test as skipped; with VARIABLE=1 it fails.
skip() {
  if [ "${!1:-0}" = 1 ]; then printf 'FAILED: %s=1, but %s\n' "$1" "$2"; exit 1; fi
  printf 'SKIPPED: %s\n' "$2"
  exit 77
}

# needs VARIABLE PROGRAM...
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
    [ "$(id -u)" -eq 0 ] || skip "$variable" 'namespaces and network links want root'
    needs "$variable" unshare nsenter ip tc mount
    unshare --mount --pid --fork --net --uts --ipc true 2>/dev/null ||
      skip "$variable" 'this container may not make namespaces (docker: --privileged)'
    VAECF_OWN_WORLD=1 exec unshare --mount --pid --fork --kill-child=KILL --mount-proc --net --uts --ipc "$BASH" "$@"
  fi
  # This is now the first process of its world: only signals that it asks for reach it.
  trap 'exit 130' INT
  trap 'exit 143' TERM
  # Memory of this world only: small, as containers have it, and gone with it.
  mount -t tmpfs -o size=64m shm /dev/shm || skip "$variable" 'no tmpfs can be mounted'
  mount -t tmpfs -o size=512m,mode=755 run /run || skip "$variable" 'no tmpfs can be mounted'
  work=/run/world
  mkdir -p "$work/tmp"
  export TMPDIR=$work/tmp
}

# Hosts n1, where this script stands, and n2, reached by `on_n2 COMMAND...`; joined by one link, n1:eth0 to n2:eth0.
two_hosts() {  # VARIABLE
  hostname n1
  : >"$work/n2.net"
  : >"$work/n2.uts"
  unshare "--net=$work/n2.net" "--uts=$work/n2.uts" hostname n2
  printf '127.0.0.1 localhost\n10.77.0.1 n1\n10.77.0.2 n2\n' >"$work/hosts"
  mount --bind "$work/hosts" /etc/hosts
  ip link add eth0 type veth peer name eth0 netns "$work/n2.net" 2>/dev/null ||
    skip "$1" 'the kernel has no links between namespaces (veth)'
  ip link set lo up
  ip address add 10.77.0.1/24 dev eth0
  ip link set eth0 up
  on_n2 ip link set lo up
  on_n2 ip address add 10.77.0.2/24 dev eth0
  on_n2 ip link set eth0 up
}
on_n2() { nsenter "--net=$work/n2.net" "--uts=$work/n2.uts" -- "$@"; }

# slow_link VARIABLE RATE: in both directions.
slow_link() {
  local limit=(qdisc replace dev eth0 root tbf rate "$2" burst 64kb latency 400ms)
  if ! tc "${limit[@]}" || ! on_n2 tc "${limit[@]}"; then skip "$1" 'the kernel cannot slow a link down (tc tbf)'; fi
}
fast_link() {
  tc qdisc delete dev eth0 root
  on_n2 tc qdisc delete dev eth0 root
}
bytes_sent() { sed -n 's/^ *eth0://p' /proc/net/dev | awk '{ print $9 }'; }

# mpirun from n1 over both hosts: mpirun "${mpi_hosts[@]}" -np N --host n1:1,n2:1 ...
mpi_over_hosts() {
  cat >"$work/agent" <<TEXT
#!/bin/sh
# In place of ssh: HOST COMMAND...
[ "\$1" = n2 ] || exit 1
shift
exec nsenter --net=$work/n2.net --uts=$work/n2.uts -- sh -c "\$*"
TEXT
  chmod +x "$work/agent"
  mpi_hosts=(--mca plm rsh --mca plm_rsh_agent "$work/agent")
  case $(mpirun --version 2>/dev/null) in
    *') 4.'*) ;;
    *) mpi_hosts=(--prtemca plm ssh --prtemca plm_ssh_agent "$work/agent") ;;
  esac
}

# await SECONDS COMMAND...: until it succeeds.
await() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    if [ "$SECONDS" -ge "$end" ]; then return 1; fi
    sleep 0.05
  done
}

# Processes of a run, a line each.
# shellcheck disable=SC2009
of_a_run() { ps -e -o pid=,comm= | grep -E ' (vaecf_dist|orted|prted|mpirun|prterun)'; }

# shellcheck source=../support/curve.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/curve.sh"
