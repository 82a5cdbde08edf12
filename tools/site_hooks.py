"""What mkdocs adds to docs/ for the site (mkdocs.yml): the README as the first page and the other Markdown files of the
repository's root, the tutorial, a page of all configuration keys, and each source file that a page links to. Links are
rewritten to these pages, so that the site works without network and without a server of the sources."""

import json
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markdown import Extension, Markdown
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^ *(```|~~~)")
LINK = re.compile(r"(\]\(|^\[[^\]]+\]: )(?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?", re.MULTILINE)
# The plugin `offline` would load a script of this name from elsewhere.
ASSETS = {"assets/iframe-worker.js": "tools/site_worker.js", "assets/site.css": "tools/site.css"}
ITEM = re.compile(r"^ *([-*+]|1\.) ")
# The pages whose text is in the repository outside of docs/.
OUTSIDE = {
    "index.md": "README.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "REPORTING.md": "SECURITY.md",
    "TOOLS.md": "tools/README.md",
}
# The search shows pages for users before those for developers.
BOOST = {"Start": 2, "How do I": 2, "Developers": 0.5}
# A page that is generated has the place of a file whose links it contains.
PLACES = OUTSIDE | {"tutorial.md": "docs/tutorial.ipynb"}
PAGES = {place: page for page, place in PLACES.items()}


class GitHubIndentation(Extension):
    """Lets lists within lists be indented by two columns, as on GitHub, instead of four. Must be the first extension."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.tab_length = 2
        md.build_parser()


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.markdown_extensions.insert(0, GitHubIndentation())
    text = (ROOT / "python/vaecf/__init__.py").read_text()
    version = re.search(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    assert version
    config.copyright = f"vaecf_dist {version[1]}, {config.copyright}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for page, place in (OUTSIDE | ASSETS).items():
        files.append(File.generated(config, page, content=(ROOT / place).read_text()))
    files.append(File.generated(config, "tutorial.md", content=notebook(ROOT / "docs/tutorial.ipynb")))
    files.append(File.generated(config, "keys.md", content=keys(ROOT / "configs/schema.json")))
    for file in list(files.documentation_pages()):
        for place in linked(file.src_uri, file.content_string):
            target = page_of(place)
            if place.startswith("docs/") or target in files.src_uris:
                continue
            if not (ROOT / place).exists():
                raise PluginError(f"{place_of(file.src_uri)}: links to {place}, which does not exist")
            files.append(File.generated(config, target, content=source(place)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    uri = page.file.src_uri
    if page.ancestors:
        page.meta["search"] = {"boost": BOOST.get(page.ancestors[-1].title, 1)}

    def rewritten(match: re.Match[str]) -> str:
        target = page_of(resolved(uri, match[2]))
        return match[1] + posixpath.relpath(target, posixpath.dirname(uri) or ".") + (match[3] or "")

    return "".join(text if code else LINK.sub(rewritten, text) for code, text in parts(lists_apart(markdown)))


def place_of(uri: str) -> str:
    """Returns the place in the repository of a page of the site."""
    return PLACES.get(uri, f"docs/{uri}")


def page_of(place: str) -> str:
    """Returns the page or file of the site that shows this file of the repository."""
    if place in PAGES:
        return PAGES[place]
    return place.removeprefix("docs/") if place.startswith("docs/") else f"source/{place}.md"


def resolved(uri: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(place_of(uri)), target))


def linked(uri: str, markdown: str) -> Iterator[str]:
    for code, text in parts(markdown):
        if not code:
            for match in LINK.finditer(text):
                yield resolved(uri, match[2])


def parts(markdown: str) -> Iterator[tuple[bool, str]]:
    """Divides a text into runs of lines: (whether they are a block of code, the lines)."""
    fence = ""
    lines: list[str] = []
    for line in markdown.splitlines(keepends=True):
        opened = FENCE.match(line)
        if opened and not fence:
            yield False, "".join(lines)
            fence, lines = opened[1], [line]
        elif opened and opened[1] == fence:
            yield True, "".join([*lines, line])
            fence, lines = "", []
        else:
            lines.append(line)
    yield bool(fence), "".join(lines)


def lists_apart(markdown: str) -> str:
    """Inserts a blank line before a list that follows a paragraph, which Python-Markdown requires and GitHub does not."""
    lines: list[str] = []
    for code, text in parts(markdown):
        within = ""  # what the lines since the last blank one are: nothing, "text" or "list"
        for line in text.splitlines(keepends=True):
            item = not code and ITEM.match(line)
            if item and within == "text":
                lines.append("\n")
            within = "" if not line.strip() or code else "list" if item or within == "list" else "text"
            lines.append(line)
    return "".join(lines)


def source(place: str) -> str:
    """Returns a page with the text of a source file, or the names in a folder, which the search leaves out."""
    file = ROOT / place
    text = "".join(f"{name}\n" for name in sorted(os.listdir(file))) if file.is_dir() else file.read_text()
    language = {".cpp": "cpp", ".hpp": "cpp", ".yaml": "yaml"}.get(
        Path(place).suffix, "sh" if text.startswith("#!") else "text"
    )
    return f"---\nsearch:\n  exclude: true\n---\n\n# {place}\n\n~~~~{language}\n{text}~~~~\n"


def keys(schema: Path) -> str:
    """Returns a page with a table of the configuration keys of each section."""
    sections: dict[str, list[tuple[str, dict[str, Any]]]] = {}

    def collect(node: dict[str, Any], path: str) -> None:
        for name, value in node.get("properties", {}).items():
            if "description" in value:
                sections.setdefault(path.rstrip("."), []).append((path + name, value))
            for section in [value, *value.get("anyOf", [])]:
                collect(section, f"{path}{name}.")

    collect(json.loads(schema.read_text()), "")
    text = "# Configuration keys\n\n`vaecf_dist --help-config` prints the same.\n"
    for section, rows in sections.items():
        text += f"\n## {section or 'The run'}\n\n| key | default | meaning |\n|---|---|---|\n"
        for key, value in rows:
            default = f"`{json.dumps(value['default'])}`" if "default" in value else ""
            meaning = re.sub(r"([|<*_])", r"\\\1", value["description"])
            text += f"| `{key}` | {default} | {meaning} |\n"
    return text


def notebook(file: Path) -> str:
    """Returns a notebook as Markdown: its texts, its code, and the outputs that it stores."""
    text = ""
    for cell in json.loads(file.read_text())["cells"]:
        content = "".join(cell["source"])
        text += f"{content}\n\n" if cell["cell_type"] == "markdown" else f"```python\n{content}\n```\n\n"
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "text/html" in data:
                # The theme formats tables that have no class, and lets them scroll on narrow screens.
                html = re.sub(r"<table[^>]*>", "<table>", "".join(data["text/html"]).strip())
                text += f"<div>\n{html}\n</div>\n\n"
            elif "image/png" in data:
                text += f'<img alt="" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">\n\n'
            elif plain := "".join(data.get("text/plain", output.get("text", []))):
                text += f"```text\n{plain.rstrip()}\n```\n\n"
    return text
