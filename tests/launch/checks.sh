#!/usr/bin/env bash
# What tests of scripts share. A test sources it, checks, and ends with `conclude MESSAGE`.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

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
conclude() {
  [ "$failures" -eq 0 ] || exit 1
  echo "$1"
}
