# Reads files of src and include (paths relative to the repository's root) and prints each breach of these rules:
#
# open       files are opened for writing in src/io/files/atomic_file.cpp only (io::open_for_writing), because elsewhere links that
#            other users have planted might be followed.
# literal    no message is split in mid-sentence: see check_literals().
BEGIN {
  writers = "O_CREAT|O_WRONLY|O_TRUNC|ofstream|std::fstream|fopen\\([^)]*\"[wa]|H5F_ACC_TRUNC|copy_file\\("
  bad = 0
}

function complain(line, text) { printf "%s:%d: %s\n", FILENAME, line, text; bad++ }

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

FNR == 1 {
  pending = 0
  raw_end = ""
  is_cxx = FILENAME ~ /\.(cpp|hpp|cu|cuh|in)$/
}
{
  if ($0 ~ writers && FILENAME != "src/io/files/atomic_file.cpp")
    complain(FNR, "a file is opened for writing: use io::open_for_writing or io::AtomicOutputFile")
  if (is_cxx) check_literals($0)
}

END { exit bad > 0 }
