# shellcheck shell=bash
# Sourced. await SECONDS COMMAND... repeats the command until it succeeds, for at most SECONDS.
await() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    if [ "$SECONDS" -gt "$end" ]; then return 1; fi
    sleep 0.05
  done
}
