# Reads the table of names of include/vaecf/models/kinds.hpp, then sources: prints each model that is named in more than six
# places of src, include and python/vaecf. A folder of src/models is one place. A name has any case, and _, - or
# nothing between its words: item_knn, item-kNN, ItemKnn.
function complain(text) { print "include/vaecf/models/kinds.hpp:1: " text; bad = 1 }

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
FILENAME == "include/vaecf/models/kinds.hpp" && /named<models::ModelType>/ { in_table = 1 }
in_table {
  for (rest = $0; match(rest, /"[a-z_]+"/); rest = substr(rest, RSTART + RLENGTH)) {
    name = substr(rest, RSTART + 1, RLENGTH - 2)
    pattern[name] = name
    gsub(/_/, "[_-]?", pattern[name])
  }
  if (/;/) in_table = 0
}
{ for (name in pattern) if (tolower($0) ~ pattern[name]) count_name(name, $0) }

END {
  for (name in pattern)
    if (count[name] > 6) complain("the model " name " is named in " count[name] " places:" places[name])
  exit bad
}
