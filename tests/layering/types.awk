# Counts the types that a header defines at namespace level, without enums, structs without functions, and kernels of a
# GPU, whose only function is operator(). More than four need a line `PATH: REASON` in the file `reasons`.
BEGIN {
  while ((getline line < reasons) > 0) {
    if (line ~ /^#/ || line == "") continue
    at = index(line, ": ")
    reason[substr(line, 1, at - 1)] = substr(line, at + 2)
    if (line !~ /: [^ ]/) { printf "%s:1: no reason: %s\n", reasons, line; without_reason++ }
  }
  bad = 0
}

function end_of_file() {
  if (count > 4 && !(file in reason)) {
    printf "%s:1: %d types (%s): cut the header by concept, or give the reason in %s\n", file, count, names, reasons
    bad++
  } else if (count <= 4 && file in reason) {
    printf "%s:1: has %d types only: remove its line in %s\n", file, count, reasons
    bad++
  }
  delete reason[file]
}

# Counts the function that a text within a type declares, if it declares one.
function count_functions(text) {
  while (gsub(/<[^<>]*>/, "", text)) {}
  if (text !~ /\(/ || text ~ /^ *(static_assert|alignas)/) return
  functions++
  if (text ~ /operator\(\)/) calls++
}

function end_of_type() {
  if (is_class || functions > 0 && !(functions == calls)) {
    count++
    names = names (names == "" ? "" : ", ") type
  }
  type = ""
}

FNR == 1 {
  if (file != "") end_of_file()
  file = FILENAME
  depth = namespaces = count = 0
  names = type = ""
}
{
  line = $0
  gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
  gsub(/'([^'\\]|\\.)'/, "0", line)
  sub(/\/\/.*/, "", line)
  if (line ~ /^#/) next
  if (line ~ /^(inline )?namespace .*\{$/ || line ~ /^namespace \{$/) { depth++; namespaces++; next }
  if (type == "" && depth == namespaces && match(line, /^(template <.*> *)?(class|struct) /)) {
    is_class = substr(line, RSTART, RLENGTH) ~ /class $/
    type = substr(line, RLENGTH + 1)
    while (sub(/^(alignas\([^)]*\)|\[\[[^]]*\]\]) */, "", type)) {}
    sub(/[^A-Za-z0-9_].*/, "", type)
    functions = calls = 0
    opened = 0
    # A type on one line.
    plain = line
    if (sub(/^[^{]*\{/, "", plain)) count_functions(plain)
  } else if (type != "" && opened && depth == namespaces + 1) {
    count_functions(line)
  }
  opens = gsub(/\{/, "{", line)
  closes = gsub(/\}/, "}", line)
  if (opens > 0 && type != "") opened = 1
  depth += opens - closes
  if (depth < namespaces) namespaces = depth
  if (type != "" && depth == namespaces) {
    if (opened && line ~ /\}.*;[ \t]*$/) end_of_type()
    else if (!opened && line ~ /;[ \t]*$/) type = ""  # only declared
  }
}

END {
  if (file != "") end_of_file()
  for (path in reason) { printf "%s:1: there is no header %s\n", reasons, path; bad++ }
  exit bad + without_reason > 0
}
