# shellcheck shell=bash
# How scripts use what others can write: values of the environment and of files are matched before they are used, because
# arithmetic of bash runs the commands in a text such as a[$(command)]; files are replaced by rename, and links are refused,
# because in a folder of a group a link can lead to any file of this user. To be sourced by watch.sh.

# is_number TEXT: succeeds if TEXT is an integer from 0 on, in decimal digits without leading zeros.
is_number() {
  case $1 in '' | *[!0-9]* | 0?*) return 1 ;; esac
  [ "${#1}" -le 15 ]
}

# number_of VARIABLE DEFAULT: prints the value of this variable of the environment, or DEFAULT if it is empty. A value that is
# no number ends the shell with 2; in $(...), the caller adds `|| exit`.
number_of() {
  local value=${!1:-$2}
  if ! is_number "$value"; then
    printf '%s: %s: must be an integer from 0 on, got %q\n' "${me:-${0##*/}}" "$1" "$value" >&2
    exit 2
  fi
  printf '%s\n' "$value"
}

# These also run in traps, where `return` without a number returns the status from before the trap.

# is_own_file FILE: succeeds if FILE is a regular file and no link, or does not exist; prints a message otherwise, and returns 2.
is_own_file() {
  if [ -L "$1" ] || { [ -e "$1" ] && [ ! -f "$1" ]; }; then
    printf '%s: %s: is a link, or no regular file; remove it, or choose another folder\n' "${me:-${0##*/}}" "$1" >&2
    return 2
  fi
}

# read_line FILE PATTERN: prints the first line of FILE. Fails if there is none, if PATTERN, an extended regular expression,
# does not match the whole line, or if FILE is a link.
read_line() {
  local line=
  is_own_file "$1" && [ -e "$1" ] || return 1
  read -r line <"$1" || [ -n "$line" ] || return 1
  [[ $line =~ ^($2)$ ]] && printf '%s\n' "$line"
}

# replace_file FILE: replaces FILE by the standard input; readers find the old or the new contents. Returns 2 if FILE is a link.
replace_file() {
  local to folder=. name status=0
  case $1 in */*) folder=${1%/*} ;; esac
  is_own_file "$1" || return 2
  name=$folder/.new.$$.$RANDOM$RANDOM
  # Opened once, and only if it does not exist, so that nobody can put a link in its place before it is written.
  set -C
  exec {to}>"$name" || status=1
  set +C
  if [ "$status" -ne 0 ]; then return 1; fi
  cat >&"$to" || status=1
  exec {to}>&-
  if [ "$status" -ne 0 ] || ! mv -fT -- "$name" "$1"; then
    rm -f -- "$name"
    return 1
  fi
}

# open_new FILE: removes FILE, makes it anew, and sets `new` to its file descriptor, for output that readers follow.
# Returns 2 if FILE is a link.
open_new() {
  local status=0
  is_own_file "$1" || return 2
  rm -f -- "$1" || return 1
  set -C  # a file that another user makes meanwhile is not opened
  # shellcheck disable=SC2034
  exec {new}>"$1" || status=1
  set +C
  return "$status"
}
