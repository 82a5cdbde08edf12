# shellcheck shell=bash
# Functions of the batch files in this folder, to be sourced in a job. docs/JOBS.md lists the environment variables.
set -uo pipefail

unset CDPATH  # with CDPATH, cd prints the folder and may choose another one
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
me=${SLURM_JOB_NAME:-vaecf}
refuse() { printf '%s\n' "$me: $*" >&2; exit 2; }
# shellcheck source=../watch.sh
. "$here/../watch.sh"

for name in SLURM_JOB_ID SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID SLURM_RESTART_COUNT SLURM_NTASKS SLURM_CPUS_PER_TASK \
  SLURM_JOB_NUM_NODES VAECF_SECONDS_TO_START VAECF_MAX_FRUITLESS VAECF_USERS_PER_RANK; do
  number_of "$name" 0 >/dev/null
done

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

# Requests from now on are kept until the ranks have started. USR1 is from `--signal=B:USR1@...` or
# `scancel --batch --signal=USR1`. TERM is from `scancel`, after which a job is not requeued. Under srun, Slurm sends TERM to
# the ranks, except for `scancel --full` or `--batch` with `--signal=TERM`; hence they get USR1 then, too.
asked='' canceled='' step=''
trap 'ask' USR1
trap 'canceled=yes; ask' TERM
# Passes a request for a checkpoint on to the ranks, through srun or mpirun. It is repeated until the log proves that the ranks
# had started before, because a signal is lost until then; a second one changes nothing.
seconds_to_start=${VAECF_SECONDS_TO_START:-3}
ask() {
  local pause=1 has_started
  asked=${asked:-$SECONDS}
  if [ -z "$step" ]; then return; fi
  while [ $((SECONDS - started)) -le "$seconds_to_start" ] && ! ended "$step"; do sleep 0.1; done
  until ended "$step"; do
    has_started=$(logged start)
    kill -s USR1 "$step" 2>/dev/null
    if [ "$has_started" ]; then return; fi
    wait_until_ended "$pause" "$step"
    pause=$((pause < 8 ? 2 * pause : 8))
  done
}

# run ARGUMENTS...: runs the program by `launch`, forwards stop requests to it, and returns its exit code, see
# final_status. Requires identify_run.
run() {
  local status command=("${launch[@]}" "$program" "$@")
  if [ -n "$asked" ]; then return 75; fi
  step='' started=$SECONDS
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
  if [ -n "$asked" ]; then ask; fi
  # A signal ends `wait`, but not the command.
  until ended "$step"; do wait "$step"; done
  wait "$step"
  status=$?
  if [ "${launch[0]}" = mpirun ]; then end_watch; fi
  final_status "$status"
  status=$?
  # The signal ends a launcher and ranks that are still starting. No step is lost.
  if [ -n "$asked" ] && [ "$status" -ne 0 ] && [ "$status" -ne 2 ] && [ -z "$(logged start)" ]; then status=75; fi
  return "$status"
}
# run_job CONFIG ARGUMENTS...: trains until the run is complete, or until the time limit or preemption; then the run writes a
# checkpoint, and the job is requeued. In an array, it replaces $SLURM_ARRAY_TASK_ID in the arguments, and without an argument
# name=... adds the number of the element to the name of the run.
run_job() {
  local resume=(--resume auto) argument status=0 from_file='' has_name=''
  if [ $# -eq 0 ]; then refuse 'usage: sbatch [OPTIONS] FILE.sbatch CONFIG.yaml [ARGUMENTS...]'; fi
  # The shell that submits an array cannot expand this variable.
  if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then set -- "${@//'$SLURM_ARRAY_TASK_ID'/$SLURM_ARRAY_TASK_ID}"; fi
  for argument; do
    case $argument in
      --resume | --resume=* | --start-from | --start-from=*) resume=() ;;
      --seeds | --seeds=*) refuse "$argument: trains one seed after the other; submit an array instead (docs/SLURM.md)" ;;
      name=* | --set=name=*) has_name=yes ;;
    esac
  done
  case " $* " in *' --resume auto '* | *' --resume=auto '*) ;; *' --resume'[\ =]*) from_file=--resume ;; esac
  case " $* " in *' --start-from'[\ =]*) from_file=--start-from ;; esac
  name_log
  find_program
  launcher ''
  identify_run "$program" "$@" "${resume[@]}"
  if [ -n "${SLURM_ARRAY_TASK_ID:-}" ] && [ -z "$has_name" ] && [ -n "$run_folder" ]; then
    set -- "$@" --set "name=$(quoted "${run_folder##*/}-$SLURM_ARRAY_TASK_ID")"
    identify_run "$program" "$@" "${resume[@]}"
  fi
  review_starts
  if [ "$fruitless" -ge "$max_fruitless" ]; then without_progress; fi
  record_start
  run "$@" "${resume[@]}" || status=$?
  if [ -n "$canceled" ] || [ "${VAECF_REQUEUE:-1}" = 0 ]; then exit "$status"; fi
  if [ -n "$from_file" ] && [ "$status" -eq 75 ]; then
    printf '%s\n' "$me: stopped with a checkpoint; not requeued, because it would start at the file of $from_file again;" \
      "$me: submit it with --resume auto instead of the file" >&2
    exit "$status"
  fi
  case $status in
    75) again 'stopped on request' ;;
    3) again 'could not start now' ;;
    0 | 2) ;;
    # A preempted job that was killed before it wrote a checkpoint is requeued, too.
    *) if preempted; then again 'preempted'; elif lost_node "$status"; then again 'a rank or its node is lost'; fi ;;
  esac
  exit "$status"
}
preempted() { scontrol show job "$job" | grep -q 'PreemptTime=[0-9]'; }
# 205 is the exit code of mpirun that lost one of its daemons. Under srun, Slurm may requeue the job before srun ends.
lost_node() { [ "$1" -eq 205 ] || [[ $(logged failed code) == *rank_lost* ]]; }
again() {  # REASON
  # If the time limit is shorter than the lead of --signal, Slurm signals at once. What such starts add would go on for ever.
  if [ "${asked:-60}" -lt 60 ] && ! preempted; then
    furthest=$(last_checkpoint)
    record_start
  fi
  review_starts
  if [ "$fruitless" -ge "$max_fruitless" ]; then without_progress; fi
  printf '%s\n' "$me: $1; requeueing job $job" >&2
  # This also ends this shell.
  scontrol requeue "$job" && exit 0
  printf '%s\n' "$me: the job could not be requeued; submit it by hand, unless Slurm has requeued it" >&2
}
quoted() { printf '%s' "'${1//\'/\'\'}'"; }  # for YAML

# Renames the log of an array's element from NAME-JOB.log, the default of the batch files, to NAME-ARRAY_ELEMENT.log, as %A_%a
# would have named it: as the default it would give jobs that are no arrays a meaningless number. A later start appends.
name_log() {
  local log named
  log=$(readlink "/proc/$$/fd/1") || return
  named=${log%/*}/${SLURM_JOB_NAME:-}-$job.log
  if [ -z "${SLURM_ARRAY_TASK_ID:-}" ] || [ "$log" != "${log%/*}/${SLURM_JOB_NAME:-}-$SLURM_JOB_ID.log" ]; then return; fi
  # The standard output is the log, so it is not opened by its name again.
  if [ -f "$named" ] && [ ! -L "$named" ]; then cat "$named"; fi
  mv -fT "$log" "$named"
}

# The file .slurm in the run folder ends a chain of starts that would never complete, as of a job whose time is too short
# for a checkpoint. Each start writes: the job; the largest step of a checkpoint; the number of starts in a row before it that
# wrote no newer one.
max_fruitless=${VAECF_MAX_FRUITLESS:-3}
if [ "$max_fruitless" -eq 0 ]; then refuse 'VAECF_MAX_FRUITLESS: must be at least 1, got 0'; fi
record_start() {
  if [ -z "$run_folder" ]; then return; fi
  mkdir -p "$run_folder" && printf '%s\n' "$job $furthest $fruitless" | replace_file "$run_folder/.slurm"
}
# Sets `furthest` and `fruitless` from this file, and from what the log of the run says since then.
review_starts() {
  local line last number='(0|[1-9][0-9]{0,14})'
  furthest=0 fruitless=0
  if [ -z "$run_folder" ]; then return; fi
  is_own_file "$run_folder/.slurm" || exit
  furthest=$(last_checkpoint)
  # Another job begins a new chain.
  if ! line=$(read_line "$run_folder/.slurm" "$job $number $number"); then return; fi
  read -r _ last fruitless <<<"$line"
  if [ "$furthest" -gt "$last" ]; then fruitless=0; else furthest=$last fruitless=$((fruitless + 1)); fi
}
last_checkpoint() {  # prints its step; of a model that is solved at once the number of the last solution
  local last=0 number event
  for event in checkpoint:step solve:solution; do
    if [ ! -f "$run_folder/metrics.jsonl" ]; then break; fi
    while read -r number; do
      if is_number "$number" && [ "$number" -gt "$last" ]; then last=$number; fi
    done < <("$program" inspect "$run_folder" --events "${event%:*}" --fields "${event#*:}" 2>/dev/null </dev/null)
  done
  echo "$last"
}
without_progress() {
  printf '%s\n' "$me: $fruitless starts in a row wrote no new checkpoint, or had to stop within a minute (last step: $furthest);" \
    "job $job is not requeued; give it more time (--time, well above the two minutes of --signal; a partition with a longer" \
    "GraceTime), and submit it again" | paste -sd ' ' >&2
  exit 1
}

# run_scaling CONFIG ARGUMENTS...: runs the benchmark; the number of ranks is the index of this array element.
run_scaling() {
  local ranks=${SLURM_ARRAY_TASK_ID:-} tasks=${SLURM_NTASKS:-1} nodes=${SLURM_JOB_NUM_NODES:-1} each weak=()
  local folder=${VAECF_SCALING_FOLDER:-runs/scaling-${SLURM_ARRAY_JOB_ID:-}}
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
  local output=(--set "run.directory=$(quoted "$folder")")
  benchmark "$@" --benchmark "${weak[@]}" --set "name=ranks-$ranks" "${output[@]}" || return
  # A single rank also runs a smaller batch, so that the report can separate the costs per step and per user.
  if [ "$ranks" -eq 1 ] && [ "$tasks" -gt 1 ]; then
    batch=${batch:-$("$program" "$@" --print-value train.batch_size)}
    is_number "$batch" || refuse "train.batch_size of the configuration: must be an integer, got $batch"
    small=$(((batch + tasks - 1) / tasks))
    benchmark "$@" --benchmark --set "train.batch_size=$small" --set name=ranks-1-small "${output[@]}"
  fi
}
benchmark() {  # ARGUMENTS...
  identify_run "$program" "$@"
  run "$@"
}
