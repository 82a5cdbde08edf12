# Prints each name of a page of the documentation that does not exist, and each anchor that its page does not have, as
# file:line: text. Arguments: the pages with their folder, then - for lines file:line:text. A name is in capitals, as docs/METRICS.md or
# METRICS.md#per-user; pages are in docs/ or the root.
function slug(heading) {
  heading = tolower(heading)
  gsub(/[^a-z0-9_ -]/, "", heading)
  gsub(/ /, "-", heading)
  return heading
}
FILENAME != "-" && FNR == 1 {
  page = FILENAME
  sub(/.*\//, "", page)
  pages[page] = 1
  code = 0
}
FILENAME != "-" {
  if (/^ *```/) code = !code
  if (!code && /^#+ /) { sub(/^#+ /, ""); anchors[page "#" slug($0)] = 1 }
  if (/^<a id="/) { split($0, parts, "\""); anchors[page "#" parts[2]] = 1 }
  next
}
{
  place = $0
  match(place, /^[^:]*:[0-9]*/)
  place = substr(place, 1, RLENGTH)
  text = substr($0, RLENGTH + 2)
  while (match(text, /[A-Z][A-Z_]+\.md(#[a-z0-9_-]+)?/)) {
    name = substr(text, RSTART, RLENGTH)
    before = RSTART > 1 ? substr(text, RSTART - 1, 1) : ""
    text = substr(text, RSTART + RLENGTH)
    file = name
    sub(/#.*/, "", file)
    if (before ~ /[A-Za-z0-9_.$}]/) continue
    if (!(file in pages)) { print place ": there is no page " file; bad = 1 }
    else if (name != file && !(name in anchors)) { print place ": " file " has no heading for " name; bad = 1 }
  }
}
END { exit bad }
