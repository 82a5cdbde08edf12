# shellcheck shell=bash
# Functions of the batch files in this folder, to be sourced in a job. docs/SLURM.md lists the environment variables.
set -uo pipefail

unset CDPATH  # with CDPATH, cd prints the folder and may choose another one
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
me=${SLURM_JOB_NAME:-vaecf}
refuse() { printf '%s\n' "$me: $*" >&2; exit 2; }

# SLURM_JOB_ID may also be the id of the whole array, as for its last element.
job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
job=${job:-$SLURM_JOB_ID}

find_program() {
  local tree=${here%/launch/slurm} prefix
  prefix=${tree%/share/vaecf_dist}
  program=${VAECF_PROGRAM:-}
  # Installed with this script; in a bundle, mpirun is next to it.
  if [ -z "$program" ] && [ "$prefix" != "$tree" ] && [ -x "$prefix/bin/vaecf_dist" ]; then
    program=$prefix/bin/vaecf_dist
    PATH=$prefix/bin:$PATH
  fi
  if [ -z "$program" ]; then
    for program in "$tree/build/release/bin/vaecf_dist" "$tree/build/cuda/bin/vaecf_dist" vaecf_dist; do
      if command -v "$program" >/dev/null 2>&1; then break; fi
    done
  fi
  command -v "$program" >/dev/null 2>&1 ||
    refuse "$program does not exist (on ${SLURMD_NODENAME:-this node}); build it, or set VAECF_PROGRAM"
}

# launcher RANKS: sets the array `launch` for this number of ranks (empty: the number of tasks of the job).
launcher() {
  local ranks=${1:-${SLURM_NTASKS:-}} threads=${SLURM_CPUS_PER_TASK:-1}
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$threads}
  case ${VAECF_LAUNCHER:-srun} in
    srun)
      # With other values of --mpi, each rank would be a separate MPI job, or would not start.
      launch=(srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task="$threads" ${1:+--ntasks="$1"})
      # shellcheck disable=SC2206
      launch+=(${VAECF_SRUN:-})
      ;;
    mpirun)
      # The step of its daemons, with one task per node, must get all cores of the job.
      export SLURM_WHOLE=1
      # The TERM of a preempted job also reaches the daemons on other nodes, which would end the ranks immediately.
      if env --block-signal=TERM true 2>/dev/null; then
        export OMPI_MCA_orte_launch_agent=${OMPI_MCA_orte_launch_agent:-env --block-signal=TERM orted}
        export PRTE_MCA_prte_launch_agent=${PRTE_MCA_prte_launch_agent:-env --block-signal=TERM prted}  # Open MPI 5
      fi
      launch=(mpirun ${ranks:+-np "$ranks"} -x OMP_NUM_THREADS)
      # shellcheck disable=SC2206
      launch+=(${VAECF_MPIRUN:---bind-to none})
      ;;
    *) refuse "VAECF_LAUNCHER: must be srun or mpirun, got $VAECF_LAUNCHER" ;;
  esac
  printf '%s\n' "$me: job $job, start $((${SLURM_RESTART_COUNT:-0} + 1)), on ${SLURM_JOB_NODELIST:-?}:" \
    "${ranks:-all} ranks of $OMP_NUM_THREADS threads by ${launch[0]}" | paste -sd ' ' >&2
}

# Requests a checkpoint from the ranks. Ranks that are still starting would ignore the signal, or end.
seconds_to_start=${VAECF_SECONDS_TO_START:-3}
ask() {
  signaled=yes
  while [ $((SECONDS - started)) -le "$seconds_to_start" ] && kill -0 "$step" 2>/dev/null; do sleep 0.1; done
  case ${launch[0]} in
    # In the background, because scancel retries for a while if the job is ending.
    srun) scancel --signal=USR1 "$job" 2>/dev/null & ;;
    mpirun) kill -s USR1 "$step" 2>/dev/null ;;
  esac
}

# run COMMAND...: runs the command, forwards stop requests to it, and returns its exit code.
run() {
  local status
  canceled=
  # From `--signal=B:USR1@...` or `scancel --batch --signal=USR1`.
  trap ask USR1
  # A canceled job is not requeued. Under srun, Slurm sends TERM to the ranks, except for `scancel --full` or `--batch`
  # with `--signal=TERM`; hence USR1, which Slurm rejects for a canceled job.
  trap 'canceled=yes; ask' TERM
  # In a separate process group (-m), because srun and mpirun kill their ranks on TERM, which `scancel --full
  # --signal=TERM` sends to the group of this shell.
  set -m
  "$@" &
  step=$!
  set +m
  started=$SECONDS
  while :; do
    signaled=
    wait "$step"
    status=$?
    if [ -z "$signaled" ]; then break; fi
  done
  return "$status"
}

# run_job CONFIG ARGUMENTS...: trains until the run is complete, or until the time limit or preemption; then the run
# writes a checkpoint, and the job is requeued.
run_job() {
  local resume=(--resume auto) argument status=0 from_file=
  if [ $# -eq 0 ]; then refuse 'usage: sbatch [OPTIONS] FILE.sbatch CONFIG.yaml [ARGUMENTS...]'; fi
  for argument; do
    case $argument in --resume | --resume=* | --start-from | --start-from=*) resume=() ;; esac
  done
  case " $* " in *' --resume auto '* | *' --resume=auto '*) ;; *' --resume'[\ =]*) from_file=--resume ;; esac
  case " $* " in *' --start-from'[\ =]*) from_file=--start-from ;; esac
  find_program
  launcher ''
  run "${launch[@]}" "$program" "$@" "${resume[@]}" || status=$?
  if [ -n "$canceled" ] || [ "${VAECF_REQUEUE:-1}" = 0 ]; then exit "$status"; fi
  if [ -n "$from_file" ] && [ "$status" -eq 75 ]; then
    printf '%s\n' "$me: stopped with a checkpoint; not requeued, because it would start at the file of $from_file again;" \
      "$me: submit it with --resume auto instead of the file" >&2
    exit "$status"
  fi
  case $status in
    75) again 'stopped with a checkpoint' ;;
    # A preempted job that was killed before it wrote a checkpoint is requeued, too.
    0 | 2) ;;
    *) if preempted; then again 'preempted'; fi ;;
  esac
  exit "$status"
}
preempted() { scontrol show job "$job" | grep -q 'PreemptTime=[0-9]'; }
again() {  # REASON
  printf '%s\n' "$me: $1; requeueing job $job" >&2
  # This also ends this shell.
  scontrol requeue "$job" && exit 0
  printf '%s\n' "$me: the job could not be requeued; submit it by hand, unless Slurm has requeued it" >&2
}

# run_scaling CONFIG ARGUMENTS...: runs the benchmark; the number of ranks is the index of this array element.
run_scaling() {
  local ranks=${SLURM_ARRAY_TASK_ID:-} tasks=${SLURM_NTASKS:-1} nodes=${SLURM_JOB_NUM_NODES:-1} each weak=()
  local folder=${VAECF_SCALING_FOLDER:-runs/scaling-${SLURM_ARRAY_JOB_ID:-}} quote="'"
  if [ $# -eq 0 ]; then refuse 'usage: sbatch --array=1,2,4 --ntasks 4 FILE.sbatch CONFIG.yaml [ARGUMENTS...]'; fi
  if [ -z "$ranks" ]; then refuse 'no array job; set the numbers of ranks with sbatch --array=1,2,4'; fi
  if [ "$ranks" -lt 1 ] || [ "$ranks" -gt "$tasks" ]; then
    refuse "--array: must be between 1 and --ntasks ($tasks), got $ranks"
  fi
  find_program
  launcher "$ranks"
  # As few nodes as the ranks fit on; by default, srun would use all.
  each=$(((tasks + nodes - 1) / nodes))
  if [ "${launch[0]}" = srun ]; then launch+=(--nodes=$(((ranks + each - 1) / each))); fi
  local batch=${VAECF_USERS_PER_RANK:-} small
  if [ -n "$batch" ]; then weak=(--set "train.batch_size=$((ranks * batch))"); fi
  local output=(--set "run.directory='${folder//$quote/$quote$quote}'")
  run "${launch[@]}" "$program" "$@" --benchmark "${weak[@]}" --set "name=ranks-$ranks" "${output[@]}" || return
  # A single rank also runs a smaller batch, so that the report can separate the costs per step and per user.
  if [ "$ranks" -eq 1 ] && [ "$tasks" -gt 1 ]; then
    batch=${batch:-$("$program" "$@" --print-config | sed -n 's/^  batch_size: //p')}
    small=$(((batch + tasks - 1) / tasks))
    run "${launch[@]}" "$program" "$@" --benchmark --set "train.batch_size=$small" --set name=ranks-1-small "${output[@]}"
  fi
}
