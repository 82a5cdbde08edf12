# shellcheck shell=bash disable=SC2034,SC2154
# A Slurm cluster on two hosts, for tests that have sourced hosts.sh and called own_world. `slurm_cluster` starts it, and
# prepares the use of launch/slurm for the program.

# A Slurm cluster of n1 and n2, each with a slurmd, and slurmctld on n1, without cgroups and accounting. Partition `high`
# preempts `low`. The configuration is valid for Slurm 22.05 (Debian 12) and 23.11 (Ubuntu 24.04).
slurm_starts() {
  local folder=$work/slurm
  mkdir -p "$folder"/{state,munge,spool-n1,spool-n2,tmp-n1,tmp-n2}
  chmod 700 "$folder/munge"
  head -c 1024 /dev/urandom >"$folder/munge/key"
  chmod 600 "$folder/munge/key"
  # One munged serves both hosts, through a socket file.
  munged --force --socket "$folder/munge.socket" --key-file "$folder/munge/key" --log-file "$folder/munged.log" \
    --pid-file "$folder/munge/pid" --seed-file "$folder/munge/seed" >"$folder/start.log" 2>&1 || return 1
  export SLURM_CONF=$folder/slurm.conf
  cat >"$SLURM_CONF" <<TEXT
ClusterName=test
SlurmctldHost=n1(10.77.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket,cred_expire=5
CredType=cred/munge
SlurmctldPort=6817
SlurmdPort=6818
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd-%n.log
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
TmpFS=$folder/tmp-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
ReturnToService=2
SlurmdTimeout=60
KillWait=30
UnkillableStepTimeout=30
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
NodeName=n1 NodeAddr=10.77.0.1 CPUs=4 RealMemory=1000
NodeName=n2 NodeAddr=10.77.0.2 CPUs=4 RealMemory=1000
PartitionName=low Nodes=n1,n2 Default=YES PriorityTier=1 GraceTime=20
PartitionName=now Nodes=n1,n2 PriorityTier=1 GraceTime=0
PartitionName=high Nodes=n1,n2 PriorityTier=10 PreemptMode=OFF
TEXT
  slurmctld >>"$folder/start.log" 2>&1 || return 1
  slurmd >>"$folder/start.log" 2>&1 || return 1
  on n2 slurmd >>"$folder/start.log" 2>&1 || return 1
  await 30 slurm_is_up
}
slurm_is_up() { [ "$(sinfo -h -p low -t idle -o %D 2>/dev/null)" = 2 ]; }

# field JOB NAME: prints a field of `scontrol show job`.
field() { scontrol show job "$1" 2>/dev/null | tr ' ' '\n' | sed -n "s/^$2=//p" | head -n 1; }
in_state() { [ "$(field "$1" JobState)" = "$2" ]; }
is_over() { case $(field "$1" JobState) in COMPLETED | FAILED | CANCELLED* | TIMEOUT | NODE_FAIL) ;; *) return 1 ;; esac; }
# finishes JOB STATE CODE: checks that the job ends within 90 s, with this state and exit code.
finishes() {
  await 90 is_over "$1" || { echo "job $1 did not end: $(field "$1" JobState), $(field "$1" Reason)"; return 1; }
  if ! in_state "$1" "$2" || [ "$(field "$1" ExitCode)" != "$3:0" ]; then
    echo "job $1 must end as $2, $3:0, got $(field "$1" JobState), $(field "$1" ExitCode)"
    return 1
  fi
}

slurm_cluster() {  # KEYS of the configuration
  two_hosts "$required"
  slow_link "$required" 100mbit
  fast_link
  slurm_starts || fail 'Slurm did not start'
  case $(srun --mpi=list 2>&1) in *pmix*) ;; *) skip "$required" 'this Slurm has no PMIx plugin' ;; esac
  small_run 8 "$1"
  # The batch files are used from a folder with a space in its name.
  ln -s "$root" 'a tree'
  batch='a tree/launch/slurm'
  export VAECF_PROGRAM=$program VAECF_SECONDS_TO_START=0 OMPI_MCA_mpi_yield_when_idle=1
  done_with 'a cluster of two nodes'
}
done_with() { echo "$SECONDS s: $*"; }

# submit NAME FILE SBATCH-ARGUMENTS...: sets `job`.
submit() {
  job=$(sbatch --parsable "${@:3}" "$batch/$2.sbatch" c.yaml --set "name=$1") || fail "sbatch $1"
}
completes() {
  await 90 is_over "$2" || true
  # If a rank sends while another one is still in MPI_Init, Open MPI 4.1.4 may crash (btl_tcp calls a callback before it
  # is registered). This is rare, and neither the program nor the batch file can prevent it, so the job is run again.
  if crashed_at_start "$2"; then
    echo "note: Open MPI crashed in MPI_Init of job $2 ($1), which is requeued"
    scontrol requeue "$2"
  fi
  finishes "$2" COMPLETED 0 || fail "$1"
}
crashed_at_start() {  # JOB: by SEGV before the first log line of the program
  [ "$(field "$1" ExitCode)" = 139:0 ] &&
    ! tac "vaecf-$1.log" | sed '/^vaecf: job/q' | grep -q '^vaecf_dist [0-9]'
}
as_one_node() {  # NAME; with two ranks every sum has two terms, so the order of summation does not matter
  diff <(curve runs/one/metrics.jsonl) <(curve "runs/$1/metrics.jsonl") || fail "$1: the curve differs from that of one node"
}
has() { grep -qE -- "$2" "vaecf-$1.log" || fail "the log of job $1 contains no line with: $2"; }
