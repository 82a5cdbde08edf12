# shellcheck shell=bash
# Sourced. curve FILE prints the epoch, validation and test events of a metrics.jsonl, without times and paths.
curve() {
  grep -E '"event":"(epoch|validation|test)"' "$1" |
    sed -E 's/,"(time|[a-z_]*seconds|[a-z_]*_per_second)":("[^"]*"|[^,}]*)//g;s/"checkpoint":"[^"]*"//'
}
