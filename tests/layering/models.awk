# Reads the list VAECF_MODELS of include/vaecf/models/model.hpp, then sources: prints each model that is named in more than six
# places of src, include and python/vaecf. A folder of src/models is one place. A name has any case, and _, - or
# nothing between its words: item_knn, item-kNN, ItemKnn.
function complain(text) { print "include/vaecf/models/model.hpp:1: " text; bad = 1 }

function place_of(path,   parts) {
  if (path !~ /^src\/models\/[a-z_]+\//) return path
  split(path, parts, "/")
  return "src/models/" parts[3] "/"
}

function count_name(name, text,   rest, before, after) {
  for (rest = text; match(tolower(rest), pattern[name]); rest = substr(rest, RSTART + RLENGTH)) {
    before = RSTART == 1 ? "" : substr(rest, RSTART - 1, 1)
    after = substr(rest, RSTART + RLENGTH, 1)
    if (before ~ /[A-Za-z]/ || after ~ /[a-z]/) continue
    if (!((name, place) in seen)) {
      seen[name, place] = 1
      places[name] = places[name] " " place
      ++count[name]
    }
    return
  }
}

FNR == 1 { place = place_of(FILENAME) }
FILENAME == "include/vaecf/models/model.hpp" && match($0, /^  MODEL\([a-z_]+\)/) {
  name = substr($0, RSTART + 8, RLENGTH - 9)
  pattern[name] = name
  gsub(/_/, "[_-]?", pattern[name])
}
{ for (name in pattern) if (tolower($0) ~ pattern[name]) count_name(name, $0) }

END {
  for (name in pattern)
    if (count[name] > 6) complain("the model " name " is named in " count[name] " places:" places[name])
  exit bad
}
