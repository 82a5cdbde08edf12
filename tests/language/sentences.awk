# Prints each sentence of more than 25 words on pages in Markdown, as file:line: text. Headings, tables and code are left out; an inline
# code counts as one word. The line is that of the beginning of the paragraph.
function end_sentence(words, parts) {
  gsub(/^[ *_"(]+|[ *_")]+$/, "", sentence)
  words = split(sentence, parts, /[ \t]+/)
  if (words > 25) {
    print page ":" start ": a sentence of " words " words: " substr(sentence, 1, 70) "..."
    bad = 1
  }
  sentence = ""
}
function end_paragraph(i, n, words) {
  gsub(/`[^`]*`/, "`code`", paragraph)
  gsub(/\]\([^)]*\)/, "", paragraph)
  gsub(/!?\[/, "", paragraph)
  n = split(paragraph, words, /[ \t]+/)
  for (i = 1; i <= n; ++i) {
    sentence = sentence " " words[i]
    # What begins with a small letter goes on after an abbreviation.
    if (words[i] ~ /[.!?][)"*_]*$/ && (i == n || words[i + 1] !~ /^[("*_]*[a-z]/)) end_sentence()
  }
  end_sentence()
  paragraph = ""
}
FNR == 1 { end_paragraph(); page = FILENAME; code = 0 }
/^ *(```|~~~)/ { end_paragraph(); code = !code; next }
code { next }
/^ *(\||<|#)/ || /^ *$/ { end_paragraph(); next }
/^ *([-*]|[0-9]+\.) / { end_paragraph(); sub(/^ *([-*]|[0-9]+\.) +/, "") }
{
  if (paragraph == "") start = FNR
  paragraph = paragraph (paragraph == "" ? "" : " ") $0
}
END { end_paragraph(); exit bad }
