# shellcheck shell=bash
# Functions of the batch files in this folder, to be sourced in a job. docs/SLURM.md lists the environment variables.
set -uo pipefail

unset CDPATH  # with CDPATH, cd prints the folder and may choose another one
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
me=${SLURM_JOB_NAME:-vaecf}
refuse() { printf '%s\n' "$me: $*" >&2; exit 2; }
# shellcheck source=../watch.sh
. "$here/../watch.sh"

# SLURM_JOB_ID may also be the id of the whole array, as for its last element.
job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
job=${job:-$SLURM_JOB_ID}

find_program() {
  local tree=${here%/launch/slurm} prefix
  prefix=${tree%/share/vaecf_dist}
  program=${VAECF_PROGRAM:-}
  # Installed with this script. In a bundle and in the environment of a wheel, mpirun is next to it; but a module may replace it.
  if [ -z "$program" ] && [ "$prefix" != "$tree" ] && [ -x "$prefix/bin/vaecf_dist" ]; then
    program=$prefix/bin/vaecf_dist
    case $(ldd "$program" 2>/dev/null | awk '$1 ~ /^libmpi\./ { print $3 }') in '' | "$prefix"/*) PATH=$prefix/bin:$PATH ;; esac
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
      # With `sbatch --export=NONE`, srun would not pass the variables of this script.
      export SLURM_EXPORT_ENV=ALL
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
      launch=(mpirun ${ranks:+-np "$ranks"} -x OMP_NUM_THREADS -x VAECF_RUN_ID)
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

# run ARGUMENTS...: runs the program by `launch`, forwards stop requests to it, and returns its exit code, see
# final_status. Requires identify_run.
run() {
  local status command=("${launch[@]}" "$program" "$@")
  canceled='' step='' started=$SECONDS
  # From `--signal=B:USR1@...` or `scancel --batch --signal=USR1`.
  trap ask USR1
  # A canceled job is not requeued. Under srun, Slurm sends TERM to the ranks, except for `scancel --full` or `--batch`
  # with `--signal=TERM`; hence USR1, which Slurm rejects for a canceled job.
  trap 'canceled=yes; ask' TERM
  # In a separate process group (-m), because srun and mpirun kill their ranks on TERM, which `scancel --full
  # --signal=TERM` sends to the group of this shell.
  if [ "${launch[0]}" = mpirun ]; then
    start_watched "${command[@]}"
    step=$child
  else
    set -m
    "${command[@]}" &
    step=$!
    set +m
  fi
  started=$SECONDS
  while :; do
    signaled=
    wait "$step"
    status=$?
    if [ -z "$signaled" ]; then break; fi
  done
  if [ "${launch[0]}" = mpirun ]; then end_watch; fi
  final_status "$status"
}

# run_job CONFIG ARGUMENTS...: replaces $SLURM_ARRAY_TASK_ID in the arguments, and trains until the run is complete, or until the time limit or preemption; then the run
# writes a checkpoint, and the job is requeued.
run_job() {
  local resume=(--resume auto) argument status=0 from_file=
  if [ $# -eq 0 ]; then refuse 'usage: sbatch [OPTIONS] FILE.sbatch CONFIG.yaml [ARGUMENTS...]'; fi
  # The shell that submits an array cannot expand this variable.
  if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then set -- "${@//'$SLURM_ARRAY_TASK_ID'/$SLURM_ARRAY_TASK_ID}"; fi
  for argument; do
    case $argument in
      --resume | --resume=* | --start-from | --start-from=*) resume=() ;;
      --seeds | --seeds=*) refuse "$argument: trains one seed after the other; submit an array instead (docs/SLURM.md)" ;;
    esac
  done
  case " $* " in *' --resume auto '* | *' --resume=auto '*) ;; *' --resume'[\ =]*) from_file=--resume ;; esac
  case " $* " in *' --start-from'[\ =]*) from_file=--start-from ;; esac
  find_program
  launcher ''
  identify_run "$program" "$@" "${resume[@]}"
  review_last_start
  if [ "$fruitless" -ge 2 ]; then without_progress; exit 1; fi
  record_start "$VAECF_RUN_ID"
  run "$@" "${resume[@]}" || status=$?
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
  review_start "$VAECF_RUN_ID"
  if [ "$fruitless" -ge 2 ]; then without_progress; return; fi
  record_start -
  printf '%s\n' "$me: $1; requeueing job $job" >&2
  # This also ends this shell.
  scontrol requeue "$job" && exit 0
  printf '%s\n' "$me: the job could not be requeued; submit it by hand, unless Slurm has requeued it" >&2
}

# The file .slurm in the run folder ends a chain of starts that would never complete, as of a job whose time is too short
# for a checkpoint. It contains: the job; the id of its last start, or - if that has been reviewed; the largest step so far;
# the number of starts in a row that made no new step.
record_start() {  # ID
  if [ -z "$run_folder" ]; then return; fi
  mkdir -p "$run_folder" && printf '%s\n' "$job $1 $furthest $fruitless" >"$run_folder/.slurm"
}
review_last_start() {
  local of_job='' last=-
  read -r of_job last furthest fruitless 2>/dev/null <"$run_folder/.slurm"
  if [ "$of_job" != "$job" ]; then last=- furthest=0 fruitless=0; fi
  if [ "$last" != - ]; then review_start "$last"; fi
}
review_start() {  # ID
  local step
  step=$(awk -v id="\"id\":\"$1\"" '
    /"event":"start"/ { counts = index($0, id); next }
    counts && match($0, /"step":[0-9]+/) { step = substr($0, RSTART + 7, RLENGTH - 7) + 0; if (step > most) most = step }
    END { print most + 0 }' "$run_folder/metrics.jsonl" 2>/dev/null)
  fruitless=$((fruitless + 1))
  if [ "${step:-0}" -gt "$furthest" ]; then furthest=$step fruitless=0; fi
}
without_progress() {
  printf '%s\n' "$me: two starts in a row made no new step after step $furthest; job $job is not requeued; give it more time" \
    "(--time, a partition with a longer GraceTime), or shorten run.checkpoint_every, and submit it again" | paste -sd ' ' >&2
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
  benchmark "$@" --benchmark "${weak[@]}" --set "name=ranks-$ranks" "${output[@]}" || return
  # A single rank also runs a smaller batch, so that the report can separate the costs per step and per user.
  if [ "$ranks" -eq 1 ] && [ "$tasks" -gt 1 ]; then
    batch=${batch:-$("$program" "$@" --print-config | sed -n 's/^  batch_size: //p')}
    small=$(((batch + tasks - 1) / tasks))
    benchmark "$@" --benchmark --set "train.batch_size=$small" --set name=ranks-1-small "${output[@]}"
  fi
}
benchmark() {  # ARGUMENTS...
  identify_run "$program" "$@"
  run "$@"
}
