# shellcheck shell=bash
# Functions to start the program with a launcher and to check how it ended, to be sourced by lib.sh and slurm/job.sh.
# Open MPI 5's mpirun can exit with 0 after a node was lost, and on a host without ranks mpirun of any version can wait
# about 15 minutes for a node that was lost. Exit codes and ends therefore follow from the log of the run.
# shellcheck source=checked.sh
. "${BASH_SOURCE[0]%/*}/checked.sh"

run_folder=
watch_folder=
watcher=

# ended PID: succeeds if the process does not exist, or is a zombie.
ended() { ! grep -q '^State:[[:space:]]*[^ZX]' "/proc/$1/status" 2>/dev/null; }
# descendants PID: lists all descendants of a process, because mpirun starts its ranks in separate process groups.
descendants() {
  { cat /proc/[0-9]*/stat 2>/dev/null || true; } | awk -v of="$1" '
    { id = $1; sub(/^.*\) [^ ]+ /, ""); parent[id] = $1 }
    END {
      do {
        grown = 0
        for (id in parent) if (!(id in known) && (parent[id] == of || parent[id] in known)) { known[id]; grown = 1 }
      } while (grown)
      for (id in known) print id
    }'
}
# wait_until_ended SECONDS PID
wait_until_ended() {
  local tenths
  for ((tenths = $1 * 10; tenths > 0; --tenths)); do
    if ended "$2"; then return; fi
    sleep 0.1
  done
}

# identify_run PROGRAM ARGUMENTS...: exports VAECF_RUN_ID, a new id for this start of the program, and sets `run_folder`
# to the folder of the run; empty if the arguments are not those of a run.
identify_run() {
  local values=()
  VAECF_RUN_ID=$(cat /proc/sys/kernel/random/uuid)
  export VAECF_RUN_ID
  run_folder=
  mapfile -t values < <("$@" --print-value run.directory --print-value name 2>/dev/null </dev/null)
  if [ "${#values[@]}" -eq 2 ]; then run_folder=${values[0]}/${values[1]}; fi
}
# logged EVENT [FIELDS]: prints these fields (default: the id) of each such event of this start in the log of the run. Fails if
# there is no log.
logged() {
  [ -n "$run_folder" ] && [ -f "$run_folder/metrics.jsonl" ] &&
    # shellcheck disable=SC2154 # of find_program
    "$program" inspect "$run_folder" --events "$1" --fields "${2:-id}" --id "$VAECF_RUN_ID" 2>/dev/null </dev/null
}

# final_status CODE: returns the exit code of a start that ended with CODE: 1 if end_after_failure ended it, and 1 instead
# of 0 if the log of the run does not prove that the program `program` did everything.
final_status() {
  if [ -n "$watch_folder" ] && [ -e "$watch_folder/ended" ]; then return 1; fi
  if [ "$1" -ne 0 ] || [ -z "$run_folder" ]; then return "$1"; fi
  # shellcheck disable=SC2154 # of find_program
  "$program" inspect "$run_folder" --finished --id "$VAECF_RUN_ID" >&2 </dev/null && return
  printf '%s\n' "${me:-${0##*/}}: the launcher reports success, but the run has not finished (see above);" \
    "a host may be lost; --resume auto continues the run" >&2
  return 1
}

seconds_after_failure=$(number_of VAECF_SECONDS_AFTER_FAILURE 30) || exit

# start_watched COMMAND...: starts mpirun with this command in a separate process group, and sets `child` to its process
# id. If it still runs 30 s after a rank has ended the run, it is ended. Ranks write the event `failed` to standard error too,
# because the log of a new run may not exist yet, and a disk may be full or lost.
start_watched() {
  local errors failed="{\"event\":\"failed\",\"id\":\"${VAECF_RUN_ID:-}\""
  if [ -n "$watch_folder" ]; then rm -rf "$watch_folder"; fi
  watch_folder=$(mktemp -d) || exit 1
  trap 'kill -s KILL "$watcher" 2>/dev/null || true; rm -rf "$watch_folder"' EXIT
  # Each byte is passed on at once, since a progress bar has no line ends.
  # shellcheck disable=SC2094
  exec {errors}> >(
    trap '' INT TERM HUP USR1
    exec tee >(exec >/dev/null 2>&1; grep -qm 1 -F "$failed" && : >"$watch_folder/failed"; exec cat) >&2
  )
  passes_on=$!
  set -m
  "$@" </dev/null 2>&"$errors" {errors}>&- &
  child=$!
  set +m
  end_after_failure "$child" {errors}>&- &
  watcher=$!
  disown "$watcher"
  exec {errors}>&-
}
# end_watch: waits for the last lines of the command's output. A watcher that ends the command ends all of its processes.
end_watch() {
  if [ -e "$watch_folder/ended" ]; then wait_until_ended 7 "$watcher"; fi
  kill -s KILL "$watcher" 2>/dev/null || true
  wait_until_ended 2 "$passes_on"
}

run_failed() { [ -e "$watch_folder/failed" ] || [ -n "$(logged failed)" ]; }
end_after_failure() {  # PID
  local seconds
  trap '' INT TERM HUP USR1
  until run_failed; do
    sleep 2 >/dev/null 2>&1
    if ended "$1"; then return; fi
  done
  for ((seconds = seconds_after_failure; seconds > 0; --seconds)); do
    sleep 1 >/dev/null 2>&1
    if ended "$1"; then return; fi
  done
  : >"$watch_folder/ended"
  printf '%s\n' "${me:-${0##*/}}: a rank ended the run $seconds_after_failure s ago, but mpirun has not ended; ending it" >&2
  local family
  family=$(descendants "$1")
  kill -s TERM -- "-$1" 2>/dev/null || true
  wait_until_ended 5 "$1"
  # shellcheck disable=SC2086
  kill -s KILL -- "-$1" $family 2>/dev/null || true
}
