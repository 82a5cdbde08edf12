# Prints each sentence of more than 25 words on pages in Markdown, as file:line: text, where a page has more of them than the list allows,
# and each page that has fewer. Arguments: the list, with a page and its number in each line, then the pages. Headings, tables and code
# are left out; an inline code counts as one word. The line is that of the beginning of the paragraph.
function end_sentence(words, parts) {
  gsub(/^[ *_"(]+|[ *_")]+$/, "", sentence)
  words = split(sentence, parts, /[ \t]+/)
  if (words > 25) {
    ++count[page]
    found[page] = found[page] page ":" start ": a sentence of " words " words: " substr(sentence, 1, 70) "...\n"
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
FILENAME == ARGV[1] { if (!/^#/) allowed[$1] = $2; next }
FNR == 1 { end_paragraph(); page = FILENAME; code = 0; pages[page] = 1 }
/^ *(```|~~~)/ { end_paragraph(); code = !code; next }
code { next }
/^ *(\||<|#)/ || /^ *$/ { end_paragraph(); next }
/^ *([-*]|[0-9]+\.) / { end_paragraph(); sub(/^ *([-*]|[0-9]+\.) +/, "") }
{
  if (paragraph == "") start = FNR
  paragraph = paragraph (paragraph == "" ? "" : " ") $0
}
END {
  end_paragraph()
  for (page in pages) {
    if (count[page] + 0 == allowed[page] + 0) continue
    bad = 1
    if (count[page] + 0 > allowed[page] + 0) printf "%s", found[page]
    else print page ": lower the number in tests/language/long_sentences.txt from " allowed[page] " to " (count[page] + 0)
  }
  exit bad
}
