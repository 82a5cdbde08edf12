# shellcheck shell=bash disable=SC2154
# A Slurm cluster of the two hosts of hosts.sh: n1 and n2, each with a slurmd, and slurmctld on n1, without cgroups and
# accounting. Partition `high` preempts `low`. To be sourced after `two_hosts`; the configuration is valid for Slurm
# 22.05 (Debian 12) and 23.11 (Ubuntu 24.04).

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
  on_n2 slurmd >>"$folder/start.log" 2>&1 || return 1
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
