# Reads text files (paths relative to the repository's root) and prints each breach of these rules:
#
# person     no `nobody`, `whoever`, `somebody`, `everybody`, `rubbish` in src, include, docs and README.md, as whole words in
#            any case (an underscore or a digit ends a word).
# docstring  no docstring in src and include begins with `Of`, `What`, `Where`, `Who`, `Whether`, `As`, `By` or `The same`, in
#            any case. A docstring begins at a line `///` whose previous line is not one, or at a trailing `///<`.
# metaphor   no `twin`, `verb`, `room` (or their plurals), `newcomers`, `strangers` in any file or file name, in any case: as
#            whole words (vaecf_room, cuda-twin) and as parts of CamelCase names (CudaTwinDevice).
# spelling   US spelling of optimizer, initialize, initialization, normalize, synchronize, serialize, behavior, neighbor in src
#            and include, also within words.
# slice      `slice` only as `item slice`, and `group` only after `parameter`, `model-parallel`, `data-parallel`, `thread`, `MPI` or,
#            in files on HDF5, `HDF5`, in C++ files and Markdown (CONTRIBUTING.md, Glossary): see check_words(). Words of other
#            programs in `backticks` or "quotes" are theirs.
# open       files are opened for writing in src/io/files/atomic_file.cpp only (io::open_for_writing), because elsewhere links that
#            other users have planted might be followed.
# literal    no message in src and include is split in mid-sentence: see check_literals().
BEGIN {
  edge_before = "(^|[^a-z])"
  edge_after = "([^a-z]|$)"
  persons = edge_before "(nobody|whoever|somebody|everybody|rubbish)" edge_after
  metaphors = edge_before "(twins?|verbs?|rooms?|newcomers|strangers)" edge_after
  camel = "(Twins?|Verbs?|Rooms?|Newcomers|Strangers)"
  openings = "^ *(of|what|where|who|whether|as|by|the same)([^a-z]|$)"
  writers = "O_CREAT|O_WRONLY|O_TRUNC|ofstream|std::fstream|fopen\\([^)]*\"[wa]|H5F_ACC_TRUNC|copy_file\\("
  british = "optimiser|initialise|initialisation|normalise|synchronise|serialise|behaviour|neighbour"
  bad = 0
}

function complain(line, text) { printf "%s:%d: %s\n", FILENAME, line, text; bad++ }

# The part of `text` that matches `pattern`, without the characters at its edges.
function found(text, pattern,   what) {
  match(text, pattern)
  what = substr(text, RSTART, RLENGTH)
  gsub(/^[^A-Za-z]+|[^A-Za-z]+$/, "", what)
  return what
}

function check_metaphors(line, text, where) {
  if (tolower(text) ~ metaphors) complain(line, "`" found(tolower(text), metaphors) "`" where ": use the technical term")
  else if (text ~ ("[a-z0-9]" camel edge_after)) complain(line, "`" found(text, camel) "`" where ": use the technical term")
}

function check_docstring(line,   at, text) {
  text = ""
  at = index(line, "///<")
  if (line ~ /^[ \t]*\/\/\/</) {  # continues the docstring above
    if (!in_docstring && !in_trailing) text = substr(line, at + 4)
    in_trailing = 1
  } else if (line ~ /^[ \t]*\/\/\//) {
    if (!in_docstring) text = substr(line, index(line, "///") + 3)
    in_docstring = 1
    in_trailing = 0
  } else {
    if (at) text = substr(line, at + 4)
    in_docstring = 0
    in_trailing = at > 0
  }
  if (tolower(text) ~ openings) complain(FNR, "a docstring begins with `" found(text, "^ *[A-Za-z]+( same)?") "`")
}

function check_spelling(line,   text) {
  text = tolower(line)
  if (text ~ british) complain(FNR, "`" found(text, british) "`: use the US spelling")
}

# Two string literals are adjacent if one ends a line (a comment or \ may follow) and the other begins the next. They must not be
# the parts of one sentence. Accepted are therefore:
# - a first literal that ends in `.`, `;`, `:`, `,`, `!`, `?` or a newline (\n), each with blanks after it or without;
# - two literals of which one has no word (two letters in a row outside escape sequences): bytes, punctuation, markup.
# In `code`, each literal is one `"`. Of a raw string, only the last line counts.
function check_literals(line,   code, rest, what, at, first, count) {
  gsub(/'\\?"'/, "0", line)
  count = 0
  code = ""
  rest = (raw_end == "" ? "" : "R\"" substr(raw_end, 2, length(raw_end) - 2) "(") line  # the raw string goes on
  while (match(rest, /R"[^(]*\(|"([^"\\]|\\.)*"|\/\//)) {
    code = code substr(rest, 1, RSTART - 1)
    what = substr(rest, RSTART, RLENGTH)
    rest = substr(rest, RSTART + RLENGTH)
    if (what == "//") { rest = ""; break }
    literal = substr(what, 2, RLENGTH - 2)
    if (what ~ /^R/) {
      raw_end = ")" substr(what, 3, RLENGTH - 3) "\""
      at = index(rest, raw_end)
      if (!at) { pending = 0; return }
      literal = substr(rest, 1, at - 1)
      rest = substr(rest, at + length(raw_end))
      raw_end = ""
    }
    if (!count++) first = literal
    code = code "\""
  }
  code = code rest
  if (pending && code ~ /^[ \t]*"/ && !whole(last_literal) && has_word(last_literal) && has_word(first))
    complain(FNR, "a message is split after \"" substr(last_literal, length(last_literal) - 19) "\": join the literals")
  pending = code ~ /"[ \t]*\\?$/
  last_literal = literal
}

function whole(content) { return content ~ /([.;:,!?]|\\n)[ \t]*$/ }

function has_word(content) {
  gsub(/\\x[0-9A-Fa-f]*|\\[0-7]+|\\./, "", content)
  return content ~ /[A-Za-z][A-Za-z]/
}

# Complains about each `slice` or `group`, also as a part of snake_case names, without the word that says which one. At the begin
# of a line that is the last word of the line before.
function check_words(line,   rest, before, word) {
  rest = tolower(line)
  gsub(/`[^`]*`|"[^" ]*"|h5[a-z_]+/, "x", rest)
  sub(/^[ \t]*(\/\/[\/<]*[ \t]*)?/, "", rest)
  before = last_word
  while (match(rest, /slices?|groups?/)) {
    word = substr(rest, RSTART, RLENGTH)
    before = before substr(rest, 1, RSTART - 1)
    rest = substr(rest, RSTART + RLENGTH)
    if (before !~ /[a-z]$/ && rest !~ /^[a-z]/) {
      if (word ~ /slice/ && before !~ /item[ _-]$/) complain(FNR, "`" word "`: item slice, or block of users")
      if (word ~ /group/ && before !~ /(parameter|model[_-]parallel|data[_-]parallel|thread|mpi|hdf5)[ _-]$/)
        complain(FNR, "`" word "`: say which group (CONTRIBUTING.md, Glossary)")
    }
    before = ""
  }
  last_word = tolower(line)
  sub(/.*[ \t\/]/, "", last_word)
  last_word = last_word " "
}

FNR == 1 {
  last_word = ""
  has_words_rule = FILENAME ~ /\.(hpp|cpp|cu|cuh|md)$/
  in_docstring = in_trailing = pending = 0
  raw_end = ""
  is_code = FILENAME ~ /^(src|include)\//
  is_cxx = FILENAME ~ /\.(cpp|hpp|cu|cuh|in)$/
  has_persons_rule = is_code || FILENAME ~ /^docs\// || FILENAME == "README.md"
  check_metaphors(1, FILENAME, " in the file's name")
  if (is_code) {
    in_name = tolower(FILENAME)
    if (in_name ~ british) complain(1, "`" found(in_name, british) "` in the file's name: use the US spelling")
  }
}
{
  check_metaphors(FNR, $0, "")
  if (has_words_rule) check_words($0)
  if (has_persons_rule && tolower($0) ~ persons)
    complain(FNR, "`" found(tolower($0), persons) "`: name the rank, process, thread, caller or user")
  if (is_code) {
    check_spelling($0)
    if ($0 ~ writers && FILENAME != "src/io/files/atomic_file.cpp")
      complain(FNR, "a file is opened for writing: use io::open_for_writing or io::AtomicOutputFile")
    if (is_cxx) {
      check_docstring($0)
      check_literals($0)
    }
  }
}

END { exit bad > 0 }
