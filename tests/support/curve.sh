# shellcheck shell=bash
# Sourced. curve FILE prints the epochs, validations and tests of a metrics.jsonl, but for times and places.
curve() {
  grep -E '"event":"(epoch|validation|test)"' "$1" |
    sed -E 's/,"(time|[a-z_]*seconds|[a-z_]*_per_second)":("[^"]*"|[^,}]*)//g;s/"checkpoint":"[^"]*"//'
}
