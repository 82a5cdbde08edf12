#!/bin/bash
# watchdog_ranks.sh PROGRAM RANKS HOW RANK SIGNAL CODES [TEXT ...] [-- NOT ...] : LAUNCHER...
# Starts `LAUNCHER PROGRAM HOW RANK FOLDER`; once it is going, sends SIGNAL (none: -) to rank RANK ("all": to all), or to
# the launcher where it is @SIGNAL; pause:N stops for N seconds. Passes if it ends in time with one of CODES ("not0": any but 0), if standard error holds a line with
# each TEXT (regular expressions) and no line with a NOT, and if none of its processes is left.
program=$1 ranks=$2 how=$3 rank=$4 signal=$5 codes=$6
shift 6
texts=() nots=()
while [ "$1" != : ] && [ "$1" != -- ]; do texts+=("$1"); shift; done
[ "$1" = -- ] && shift && while [ "$1" != : ]; do nots+=("$1"); shift; done
shift

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
complain() { echo "$*" >&2; failed=1; }

begin=$(date +%s%N)
timeout --foreground --kill-after=5 60 "$@" -np "$ranks" "$program" "$how" "$rank" "$folder" > "$folder/out" 2> "$folder/err" &
launcher=$!
if [ "$signal" != - ]; then
  for _ in $(seq 300); do [ -e "$folder/going" ] && break; sleep 0.1; done
  [ -e "$folder/going" ] || complain "it never got going"
  case $signal in
    @*) victims=$(pgrep -P "$launcher") signal=${signal#@} ;;  # timeout's child
    *) victims=$(cat "$folder"/${rank/all/*}.pid) ;;
  esac
  case $signal in
    pause:*) kill -STOP $victims && sleep "${signal#pause:}" && kill -CONT $victims ;;
    *) kill "-$signal" $victims ;;
  esac || complain "it is gone already"
  begin=$(date +%s%N)
fi
wait "$launcher"
code=$?
echo "exit code $code after $((($(date +%s%N) - begin) / 1000000)) ms"
cat "$folder/out" "$folder/err"
sed -i '/ exited on$/{N;s/\n/ /}' "$folder/err"  # Open MPI 5 breaks this line

case $codes in
  not0) [ "$code" != 0 ] && [ "$code" != 124 ] || complain "exit code $code" ;;
  *) case " $codes " in *" $code "*) ;; *) complain "exit code $code, not $codes" ;; esac ;;
esac
for text in "${texts[@]}"; do grep -qE -- "$text" "$folder/err" || complain "no line with: $text"; done
for text in "${nots[@]}"; do ! grep -qE -- "$text" "$folder/err" || complain "a line with: $text"; done
[ "$(ls "$folder" | grep -c 'pid$')" = "$ranks" ] || complain "not all ranks told their process number"
for file in "$folder"/*.pid; do
  # The kernel may take a moment to bury those that were killed.
  for _ in $(seq 50); do kill -0 "$(cat "$file")" 2> /dev/null || continue 2; sleep 0.1; done
  complain "process $(cat "$file") (${file##*/}) is left over"
  kill -KILL "$(cat "$file")"
done
exit $failed
