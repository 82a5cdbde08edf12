# shellcheck shell=bash disable=SC2016,SC2154
# Stand-ins for vaecf_dist, mpirun, srun and scontrol, for tests of launch/train and launch/slurm that have sourced checks.sh.
# Usage of these tests: NAME_test VAECF_DIST. The real program reads the logs that the stand-in writes.
REAL_PROGRAM=$(readlink -f "$1")
export REAL_PROGRAM

# A folder with a blank in its name, and a PATH of only what is named.
place="$work/a place"
bin=$work/bin
mkdir -p "$place"
link_tools "$bin" bash true sh sed awk grep cat sleep env rm basename dirname readlink seq kill mkdir mktemp mv chmod tail tee
stand_in() { program "$bin/$1" "$2"; }
stand_in nproc 'echo 2'

# Each process of ours notes its number here, so that none can be forgotten.
export VAECF_SECONDS_TO_START=0
export NOTES=$work/notes PIDS=$work/pids LAUNCHER=$work/launcher
: >"$PIDS"
cleanup() {
  while read -r pid; do kill -s KILL "$pid" 2>/dev/null; done <"$PIDS"
  rm -rf "$work"
}
trap cleanup EXIT
all_are_gone() { while read -r pid; do if alive "$pid"; then return 1; fi; done <"$PIDS"; }
nobody_is_left() {
  await 10 all_are_gone || complain "process $pid is left of: $said"
  : >"$PIDS"
}
await_line() {  # LINE: in the notes
  await 30 grep -qsxF "$1" "$NOTES" || complain "the stand-ins do not start: no $1 in: $(cat "$NOTES")"
}

# A rank: ends with 75 on USR1 after a moment, as a checkpoint takes one, unless it is told to be deaf.
program "$place/vaecf_dist" '
log="runs of \"me\"/a run/metrics.jsonl"
checkpoint() { printf "{\"event\":\"checkpoint\",\"step\":%s}\n" "$1" >>"$log"; }
case $* in
  *"--print-value run.directory --print-value name"*) printf "%s\n" "runs of \"me\"" "a run"; exit ;;
  inspect*--events*)
    if [ -n "${ASKED_WHILE_READING:-}" ]; then  # the shell of the job, above its subshells
      job=$PPID
      while above=$(awk "{ print \$4 }" "/proc/$job/stat") && grep -q copy-of- "/proc/$above/cmdline"; do job=$above; done
      kill -s USR1 "$job"
    fi
    exec "$REAL_PROGRAM" "$@" ;;
  inspect*) echo "inspected: $*" >>"$NOTES"; exit "${PROOF:-0}" ;;
esac
echo $$ >>"$PIDS"
case ${RANK_DOES:-obey} in
  fail_*)
    mkdir -p "${log%/*}"
    case $RANK_DOES in
      *event*) printf "{\"event\":\"failed\",\"id\":\"%s\",\"code\":\"%s\"}\n" "$VAECF_RUN_ID" "${CODE:-internal}" >>"$log" ;;
      *text*)
        echo "vaecf_dist: rank 1 on n2 has sent no heartbeat for 5 s, in training, step 3: it is down. The run ends, because the limit is 4 s (watchdog.timeout_seconds)" >&2
        printf "{\"event\":\"failed\",\"id\":\"%s\",\"code\":\"stalled\"}\n" other >&2 ;;
      *line*) printf "in another language\n{\"event\":\"failed\",\"id\":\"%s\",\"code\":\"rank_lost\",\"rank\":1}\n" "$VAECF_RUN_ID" >&2 ;;
      *program*) (cd "$DIVERGES" && "$REAL_PROGRAM" c.yaml --train --quiet) ;;
    esac
    case $RANK_DOES in *deaf*) trap "" TERM ;; *) trap "exit 143" TERM ;; esac
    echo ready >>"$NOTES"
    for _ in $(seq "${RANK_HANGS:-600}"); do sleep 0.1; done
    exit 0 ;;
  steps*)  # a start that logs the step and is stopped
    mkdir -p "${log%/*}"
    printf "{\"event\":\"start\",\"id\":\"%s\"}\n" "$VAECF_RUN_ID" >>"$log"
    checkpoint "${RANK_DOES#steps}"
    exit 75 ;;
  obey) trap "asked=yes; echo usr1 >>\"$NOTES\"" USR1; trap "echo term >>\"$NOTES\"; exit 143" TERM ;;
  grow)  # adds a checkpoint of one step more
    mkdir -p "${log%/*}"
    : >>"$log"
    trap "checkpoint \$((\$(grep -c . \"\$log\") + 1)); exit 75" USR1 ;;
  early) trap "exit 1" USR1 ;;
  deaf) trap "echo usr1 >>\"$NOTES\"" USR1; trap "" TERM INT ;;
  end*) echo "arguments: $*" >>"$NOTES"; exit "${RANK_DOES#end}" ;;
esac
asked=
echo "arguments: $*" >>"$NOTES"
echo ready >>"$NOTES"
waited=0
until [ "$asked" ] || [ $((waited += 1)) -gt 2400 ]; do sleep 0.05; done  # ends also if its test was killed
sleep 0.3
echo checkpoint >>"$NOTES"
exit 75'

# mpirun and srun: hand USR1 and TERM on to their rank, which has a process group of its own, and pass its exit code on.
launcher='
echo $$ >>"$PIDS"
echo $$ >"$LAUNCHER"
echo "'"'"'$(basename "$0")'"'"' $*" >>"$NOTES"
until case $1 in */vaecf_dist) true ;; *) false ;; esac; do shift; done
case ${RANK_DOES:-obey} in *deaf*) trap "" TERM INT ;; *) trap "kill -s TERM \$rank; ended=143" TERM INT ;; esac
trap "echo \"launcher usr1\" >>\"$NOTES\"; kill -s USR1 \$rank" USR1
ended=
set -m
"$@" &
rank=$!
set +m
while :; do
  wait $rank; status=$?
  case $(grep "^State" /proc/$rank/status 2>/dev/null) in "" | *Z* | *X*) break ;; esac
done
wait $rank; exit "${ended:-$?}"'
stand_in mpirun "case \$1 in --version) echo 'mpirun (Open MPI) 4.1.4'; exit ;; esac; $launcher"
stand_in srun "$launcher"
stand_in scontrol 'echo "scontrol $*" >>"$NOTES"; exit "${SCONTROL_CODE:-0}"'

# forget: removes the notes and, unless starts in a row are tested, the run.
forget() { : >"$NOTES"; if [ -z "${in_a_row:-}" ]; then rm -rf "$place/runs of \"me\""; fi; }
# begin COMMAND...: in the background, and waits until its rank trains. A job of bash that is not in a group of its own
# would ignore INT from the start.
begin() {
  forget
  set -m
  (cd "$place" && PATH=$bin exec "$@" >"$work/said" 2>&1 </dev/null) &
  script=$!
  set +m
  echo "$script" >>"$PIDS"
  await_line ready
}
script_ended() { ! alive "$script"; }
finish() {
  await 30 script_ended || { complain 'the script hangs'; kill -s KILL "$script"; }
  wait "$script"
  said="exit code $? $(cat "$work/said" "$NOTES")"
  nobody_is_left
}
# stopped SIGNAL COMMAND...: begins it, sends the signal to the script, and waits for its end.
stopped() {
  local signal=$1
  shift
  begin "$@"
  kill -s "$signal" "$script"
  finish
}
# now COMMAND...: all it says, its notes, and its exit code.
now() {
  local code
  forget
  (cd "$place" && PATH=$bin "$@" 2>&1 </dev/null)
  code=$?
  cat "$NOTES"
  echo "exit code $code"
}
