# shellcheck shell=bash
# What the batch files beside this one share: each sources it within its job, then calls `run_job CONFIG ARGUMENTS...`.
# docs/CLUSTERS.md lists the variables.
set -uo pipefail

unset CDPATH  # with it cd says where it went, and may go elsewhere
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
me=${SLURM_JOB_NAME:-vaecf}
refuse() { printf '%s\n' "$me: $*" >&2; exit 2; }

# A number of ours may also name a whole array, as that of its last element does.
job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
job=${job:-$SLURM_JOB_ID}

find_program() {
  local tree=${here%/launch/slurm}
  program=${VAECF_PROGRAM:-}
  if [ -z "$program" ]; then
    for program in "$tree/build/release/bin/vaecf_dist" "$tree/build/cuda/bin/vaecf_dist" vaecf_dist; do
      if command -v "$program" >/dev/null 2>&1; then break; fi
    done
  fi
  command -v "$program" >/dev/null 2>&1 ||
    refuse "$program is not there (on ${SLURMD_NODENAME:-this node}): build it, or name it in VAECF_PROGRAM"
}

# launcher RANKS: sets the array `launch` for so many ranks (empty: as many as the job has tasks).
launcher() {
  local ranks=${1:-${SLURM_NTASKS:-}} threads=${SLURM_CPUS_PER_TASK:-1}
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$threads}
  case ${VAECF_LAUNCHER:-srun} in
    srun)
      # Other kinds of --mpi would make each rank a world of its own, or not start at all.
      launch=(srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task="$threads" ${1:+--ntasks="$1"})
      # shellcheck disable=SC2206
      launch+=(${VAECF_SRUN:-})
      ;;
    mpirun)
      # Its daemons are a step of one task a node: they want all of the job's cores, not one.
      export SLURM_WHOLE=1
      # At the TERM of a preempted job, which reaches the ranks of further nodes as well, they would end at once.
      if env --block-signal=TERM true 2>/dev/null; then
        export OMPI_MCA_orte_launch_agent=${OMPI_MCA_orte_launch_agent:-env --block-signal=TERM orted}
        export PRTE_MCA_prte_launch_agent=${PRTE_MCA_prte_launch_agent:-env --block-signal=TERM prted}  # Open MPI 5
      fi
      launch=(mpirun ${ranks:+-np "$ranks"} -x OMP_NUM_THREADS)
      # shellcheck disable=SC2206
      launch+=(${VAECF_MPIRUN:---bind-to none})
      ;;
    *) refuse "VAECF_LAUNCHER is $VAECF_LAUNCHER: srun or mpirun" ;;
  esac
  printf '%s\n' "$me: job $job, start $((${SLURM_RESTART_COUNT:-0} + 1)), on ${SLURM_JOB_NODELIST:-?}:" \
    "${ranks:-all} ranks of $OMP_NUM_THREADS threads by ${launch[0]}" | paste -sd ' ' >&2
}

# Asks the ranks for a checkpoint. A signal that comes while they start would be lost on them, or end them.
seconds_to_start=${VAECF_SECONDS_TO_START:-3}
ask() {
  signalled=yes
  while [ $((SECONDS - started)) -le "$seconds_to_start" ] && kill -0 "$step" 2>/dev/null; do sleep 0.1; done
  case ${launch[0]} in
    # Of a job that is ending anyway it tries for a while.
    srun) scancel --signal=USR1 "$job" 2>/dev/null & ;;
    mpirun) kill -s USR1 "$step" 2>/dev/null ;;
  esac
}

# run COMMAND...: and hand requests on to it. Its exit code is this function's.
run() {
  local status
  cancelled=
  # From `--signal=B:USR1@...` or `scancel --batch --signal=USR1`.
  trap ask USR1
  # Who cancels a job does not want it back. Under srun the ranks get their TERM from Slurm, but not from `scancel
  # --full` or `--batch` with `--signal=TERM`: hence USR1, which a cancelled job refuses.
  trap 'cancelled=yes; ask' TERM
  # A process group of its own (-m): srun and mpirun kill their ranks when they get the TERM that `scancel --full
  # --signal=TERM` sends to the group of this shell.
  set -m
  "$@" &
  step=$!
  set +m
  started=$SECONDS
  while :; do
    signalled=
    wait "$step"
    status=$?
    if [ -z "$signalled" ]; then break; fi
  done
  return "$status"
}

# run_job CONFIG ARGUMENTS...: trains until it is done, the job's time is over, or its place is wanted. Then there is a
# checkpoint, and the job goes into the queue again.
run_job() {
  local resume=(--resume auto) argument status=0 from_file=
  if [ $# -eq 0 ]; then refuse 'usage: sbatch [OPTIONS] FILE.sbatch CONFIG.yaml [ARGUMENTS...]'; fi
  for argument; do
    case $argument in --resume | --resume=*) resume=() ;; esac
  done
  case " $* " in *' --resume auto '* | *' --resume=auto '*) ;; *' --resume'[\ =]*) from_file=yes ;; esac
  find_program
  launcher ''
  run "${launch[@]}" "$program" "$@" "${resume[@]}" || status=$?
  if [ -n "$cancelled" ] || [ "${VAECF_REQUEUE:-1}" = 0 ]; then exit "$status"; fi
  if [ -n "$from_file" ] && [ "$status" -eq 75 ]; then
    printf '%s\n' "$me: stopped with a checkpoint; queued again, the job would begin at the file of --resume again:" \
      "$me: submit it with --resume auto in its place" >&2
    exit "$status"
  fi
  case $status in
    75) again 'stopped with a checkpoint' ;;
    # Ended too hard to write one.
    0 | 2) ;;
    *) if preempted; then again 'preempted'; fi ;;
  esac
  exit "$status"
}
preempted() { scontrol show job "$job" | grep -q 'PreemptTime=[0-9]'; }
again() {  # WHY
  printf '%s\n' "$me: $1; queueing job $job again" >&2
  # It ends this shell, too.
  scontrol requeue "$job" && exit 0
  printf '%s\n' "$me: the job could not be queued again: submit it by hand, unless Slurm has done so" >&2
}

# run_scaling CONFIG ARGUMENTS...: the benchmark, on as many ranks as this element's number in the array.
run_scaling() {
  local ranks=${SLURM_ARRAY_TASK_ID:-} tasks=${SLURM_NTASKS:-1} nodes=${SLURM_JOB_NUM_NODES:-1} each weak=()
  local folder=${VAECF_SCALING_FOLDER:-runs/scaling-${SLURM_ARRAY_JOB_ID:-}} quote="'"
  if [ $# -eq 0 ]; then refuse 'usage: sbatch --array=1,2,4 --ntasks 4 FILE.sbatch CONFIG.yaml [ARGUMENTS...]'; fi
  if [ -z "$ranks" ]; then refuse 'no array job: sbatch --array=1,2,4 says which numbers of ranks to try'; fi
  if [ "$ranks" -lt 1 ] || [ "$ranks" -gt "$tasks" ]; then
    refuse "the array asks for $ranks ranks, and the job has $tasks: --ntasks must be the array's largest number"
  fi
  find_program
  launcher "$ranks"
  # As few nodes as they fit on: srun would spread them over all.
  each=$(((tasks + nodes - 1) / nodes))
  if [ "${launch[0]}" = srun ]; then launch+=(--nodes=$(((ranks + each - 1) / each))); fi
  if [ -n "${VAECF_USERS_PER_RANK:-}" ]; then weak=(--set "train.batch_size=$((ranks * VAECF_USERS_PER_RANK))"); fi
  run "${launch[@]}" "$program" "$@" --benchmark "${weak[@]}" --set "name=ranks-$ranks" \
    --set "run.directory='${folder//$quote/$quote$quote}'"
}
