#!/bin/sh
# ends_in_failure.sh SECONDS COMMAND...: passes if the command ends within SECONDS, not with 0 and not by a crash.
seconds=$1
shift
timeout --kill-after=5 "$seconds" "$@"
code=$?
echo "exit code $code"
case $code in
  1 | 2) exit 0 ;;
  124 | 137) echo "it hung" >&2 ;;
esac
exit 1
