#!/usr/bin/env bash
# What tests of scripts share. A test sources it, checks, and ends with `conclude MESSAGE`.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
# shellcheck source=../support/await.sh
. "$root/tests/support/await.sh"

complain() { failures=$((failures + 1)); printf 'FAILED: %s\n' "$*"; }
# check WHAT EXPECTED FOUND: whether FOUND contains EXPECTED.
check() { case $3 in *"$2"*) ;; *) complain "$1: expected \"$2\" in: $3" ;; esac; }
check_not() { case $3 in *"$2"*) complain "$1: found \"$2\" in: $3" ;; esac; }
# says WHAT EXPECTED...: whether $said contains each.
says() {
  local what=$1 part
  shift
  for part; do check "$what" "$part" "${said-}"; done
}
# gives WHAT COMMAND... : EXPECTED...: runs the command and checks that $said, what it prints, contains each.
gives() {
  local what=$1 command=()
  shift
  while [ "$1" != : ]; do command+=("$1"); shift; done
  said=$("${command[@]}")
  says "$what" "${@:2}"
}
# link_tools FOLDER TOOL...: puts those that this machine has into a PATH of its own.
link_tools() {
  local tool found
  mkdir -p "$1"
  for tool in "${@:2}"; do found=$(type -P "$tool") && ln -s "$found" "$1/$tool"; done
}
# program FILE TEXT: makes a program. A link goes first: writing through it, root would replace the machine's own tool.
program() { rm -f "$1"; printf '#!/usr/bin/env bash\n%s\n' "$2" >"$1"; chmod +x "$1"; }
# check_model WHAT LIBRARY: whether python_model, whose output is $said, recommended with LIBRARY, and with nothing of $build.
check_model() {
  case $said in
    *'vaecf.Model was not tried'*) echo "$1: $said" ;;
    *) says "vaecf.Model, $1" "recommended by $2"; check_not "vaecf.Model, $1" "$build/" "$said" ;;
  esac
}
# alive PID. A zombie that a container's first process does not collect is dead enough.
alive() { grep -q '^State:[[:space:]]*[^ZX]' "/proc/$1/status" 2>/dev/null; }
conclude() {
  [ "$failures" -eq 0 ] || exit 1
  echo "$1"
}
