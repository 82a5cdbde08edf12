# shellcheck shell=bash
# Where programs and libraries look for libraries, to be sourced after checks.sh.

# open_to_others FOLDER: succeeds if any user could put a file there: into the folder, into one above it that has no sticky
# bit, or into the one where a folder that does not exist would be made.
open_to_others() {
  local folder=$1
  while [ ! -e "$folder" ]; do folder=${folder%/*}; folder=${folder:-/}; done
  [ -z "$(find -L "$folder" -maxdepth 0 -perm -o=w)" ] || return 0
  while [ "$folder" != / ]; do
    folder=$(dirname "$folder")
    [ -z "$(find -L "$folder" -maxdepth 0 -perm -o=w ! -perm -1000)" ] || return 0
  done
  return 1
}
# check_runpaths WHAT FOLDER...: checks that RPATH and RUNPATH of all programs and libraries in these folders have no element
# that is empty or relative, which the loader takes as the current folder, or in which others can write.
check_runpaths() {
  local what=$1 file path element folder number=0
  shift
  while IFS= read -r file; do
    path=$(readelf -d "$file" 2>/dev/null) || continue
    case $path in *'Dynamic section'*) number=$((number + 1)) ;; esac
    while IFS= read -r path; do
      while IFS= read -r -d : element; do
        folder=$(dirname "$(realpath "$file")")
        folder=${element/#'$ORIGIN'/$folder}
        case $folder in
          '') complain "$what: ${file##*/} looks for libraries in the current folder: [$path]" ;;
          /*) if open_to_others "$(realpath -m "$folder")"; then complain "$what: ${file##*/} looks for libraries in $element, where others can write"; fi ;;
          *) complain "$what: ${file##*/} looks for libraries below the current folder, in $element: [$path]" ;;
        esac
      done <<<"$path:"
    done < <(sed -n 's/.*(R\(UN\)\{0,1\}PATH).*\[\(.*\)\]$/\2/p' <<<"$path")
  done < <(find "$@" -type f)
  [ "$number" -gt 0 ] || complain "$what: no program in $*"
}
