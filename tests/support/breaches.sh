# Sourced by self-tests of checks, which set `format` of printf for the contents of files, and `complaints`, the number that one
# breach causes (empty: any).
set -eu
check=$(cd "$(dirname "$0")" && pwd)/check
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

# expect WORDS PATH[:LINE] CONTENT [PATH CONTENT]...: with files of CONTENT at PATH, the check fails with a complaint that names
# the first PATH and LINE and contains WORDS. WORDS "nothing": it passes.
expect() {
  rm -rf "$tree"
  words=$1 place=$2 content=$3
  shift
  while [ $# -gt 0 ]; do
    path=${1%:[0-9]*}
    mkdir -p "$tree/$(dirname "$path")" "$tree/src"
    # shellcheck disable=SC2059,SC2154
    printf "$format" "$2" >"$tree/$path"
    shift 2
  done
  touch "$tree/src/empty.cpp"
  status=0
  output=$("$check" "$tree" 2>&1) || status=$?
  lines=$(printf '%s' "$output" | grep -c '' || true)
  case "$words: $status: ${complaints:+$lines}: $output" in
    "nothing: 0: ${complaints:+0}: ") ;;
    *": 1: $complaints: "*"$place:"*"$words"*) ;;
    *)
      failures=$((failures + 1))
      printf 'FAILED: %s with "%s": expected %s, got status %s: %s\n' "$place" "$content" "$words" "$status" "$output"
      ;;
  esac
}

report() {
  rm -rf "$tree"
  mkdir "$tree"
  if "$check" "$tree" >/dev/null 2>&1; then
    failures=$((failures + 1))
    echo 'FAILED: an empty tree passed'
  fi
  [ "$failures" -eq 0 ] || exit 1
  echo 'every planted breach was found'
}
