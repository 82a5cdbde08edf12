"""Parts of a self-contained HTML page."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from pathlib import Path

from .charts import VARIABLES, color
from .errors import InputError
from .texts import escaped

# A table of more columns may be wider than a phone.
NARROW = 3
_STYLE = """
:root{color-scheme:light dark;--back:#fff;--text:#1b2330;--soft:#5b6675;--card:#f6f7f9;--line:#d6dae1}
@media (prefers-color-scheme:dark){:root{--back:#12161d;--text:#e4e8ef;--soft:#9aa5b5;--card:#1a2029;--line:#343c4a}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:82rem;padding:1rem;background:var(--back);color:var(--text);
font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6rem;margin:.2rem 0}h2{font-size:1.25rem;margin:2rem 0 .6rem}
p{margin:.3rem 0;color:var(--soft)}
.charts{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr))}
figure{margin:0;padding:.6rem;background:var(--card);border:1px solid var(--line);border-radius:.5rem}
figcaption{font-weight:600}
svg{display:block;width:100%;height:auto;max-width:40rem;color:var(--text)}
.wide{overflow-x:auto;margin:.4rem 0;background:linear-gradient(90deg,var(--back) 30%,transparent) local,
linear-gradient(270deg,var(--back) 30%,transparent) right local,
linear-gradient(90deg,var(--line),transparent),linear-gradient(270deg,var(--line),transparent) right;
background-repeat:no-repeat;background-size:2.5rem 100%,2.5rem 100%,.9rem 100%,.9rem 100%}
.large svg{min-width:40rem;max-width:none}
.hint{display:none}@media (max-width:40rem){.large svg{min-width:40rem;max-width:none}
.hint{display:block}}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;overflow-wrap:normal}
th,td{padding:.25rem .7rem;border-bottom:1px solid var(--line);text-align:right;vertical-align:top}
th:first-child,td:first-child{text-align:left}
table.text th{text-align:left}td.text{text-align:left;min-width:10rem;overflow-wrap:anywhere}
td.best{font-weight:700}small{color:var(--soft);white-space:nowrap}
ul.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;padding:0;margin:.4rem 0}
ul.legend span{display:inline-block;width:1.4rem;border-top:4px solid;vertical-align:middle;margin-right:.4rem}
summary{cursor:pointer;margin:.4rem 0}
p.warning{border-left:4px solid var(--series-1);background:var(--card);color:var(--text);padding:.4rem .8rem}
"""


def text(value: object) -> str:
    """Returns a value as escaped text; bytes that are not UTF-8 are backslash escapes."""
    return html.escape(escaped(str(value)))


def heading(title: str) -> str:
    """Returns the heading of a section."""
    return f"<h2>{text(title)}</h2>"


def paragraph(words: str) -> str:
    """Returns a paragraph."""
    return f"<p>{text(words)}</p>"


def warning(words: str) -> str:
    """Returns a paragraph that stands out."""
    return f'<p class="warning">{text(words)}</p>'


def cell(content: str, kind: str = "") -> str:
    """Returns a cell of a table. `content` is HTML; `kind`: a class of the style."""
    return f'<td class="{kind}">{content}</td>' if kind else f"<td>{content}</td>"


def table(name: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table that scrolls if it is wider than the page. The first text of a row is its heading; the others are
    cells."""
    titles = "".join(f'<th scope="col">{text(title)}</th>' for title in head)
    rows = list(rows)
    kind = ' class="text"' if any('class="text"' in part for row in rows for part in row[1:]) else ""
    body = "\n".join(f'<tr><th scope="row">{text(row[0])}</th>{"".join(row[1:])}</tr>' for row in rows)
    lines = f"<thead><tr>{titles}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    hint = '<p class="hint">Wide table: scroll it sideways.</p>' if len(head) > NARROW else ""
    return f'{hint}<div class="wide" tabindex="0"><table id="{name}"{kind}>{lines}</table></div>'


def wide(content: str) -> str:
    """Returns content that scrolls if it is wider than the page."""
    return f'<p class="hint">Scroll it sideways.</p><div class="wide large" tabindex="0">{content}</div>'


def figure(title: str, svg: str) -> str:
    """Returns a chart with its title."""
    return f"<figure><figcaption>{text(title)}</figcaption>\n{svg}</figure>"


def grid(figures: Iterable[str]) -> str:
    """Returns charts beside each other as far as the page is wide enough."""
    return '<div class="charts">\n' + "\n".join(figures) + "\n</div>"


def legend(names: Sequence[tuple[str, int]]) -> str:
    """Returns the names of series and the numbers of their colors as a legend; nothing for a single one."""
    if len(names) < 2:
        return ""
    entries = (f'<li><span style="border-color:{color(i)}"></span>{text(name)}</li>' for name, i in names)
    return f'<ul class="legend">{"".join(entries)}</ul>'


def details(title: str, content: str) -> str:
    """Returns content that is shown on a click."""
    return f"<details><summary>{text(title)}</summary>\n{content}</details>"


def page(title: str, parts: Iterable[str]) -> str:
    """Returns the page. It loads nothing and contains no script."""
    body = "\n".join(part for part in parts if part)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(title)}</title>
<style>{VARIABLES}{_STYLE}</style>
</head>
<body>
<h1>{text(title)}</h1>
{body}
</body>
</html>
"""


def write_text(file: str | Path, content: str) -> None:
    """Writes a file. Throws InputError if that is not possible."""
    try:
        Path(file).write_text(escaped(content), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from None
