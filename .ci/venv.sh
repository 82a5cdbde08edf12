# shellcheck shell=bash
# To be sourced after launch/lib.sh.

venv() {  # FOLDER [--system-site-packages] PACKAGE...: makes a virtual environment with packages of PyPI, as pinned
  local options=()
  if [ "$2" = --system-site-packages ]; then options=("$2") && set -- "$1" "${@:3}"; fi
  /usr/bin/python3 -I -m venv ${options[@]+"${options[@]}"} "$1" && "$1/bin/pip" install --quiet --disable-pip-version-check --retries 1 \
    --timeout 15 --constraint .ci/constraints.txt "${@:2}"
}
