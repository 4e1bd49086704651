"""Search results show where in a page a word stands, in a folder (file://) too.

Sphinx's search fetches each page that it has found to cut an excerpt out of it. A browser forbids
that to a page that was not fetched from a server itself. So the texts of all pages are loaded as a
script, by the page of search alone.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

SCRIPT: Final = "page_texts.js"
MAIN: Final = re.compile(r'<article role="main"[^>]*>(.*?)</article>', re.DOTALL)
DROPPED: Final = re.compile(r'<a class="headerlink".*?</a>|<(script|style).*?</\1>', re.DOTALL)
TAG: Final = re.compile(r"<(?!section\b|/section\b)[^>]*>")
ROW: Final = re.compile(r"<tr\b.*?</tr>", re.DOTALL)
ID: Final = re.compile(r'\bid="([^"]+)"')
SPACE: Final = re.compile(r"\s+")
FORM: Final = """// The texts of all pages: a page in a folder may not fetch others.
const pageTexts = {};
const fetchFromServer = window.fetch;
window.fetch = (url, ...options) => {{
  const text = pageTexts[String(url).replace(/^\\.\\//, "")];
  return text === undefined
    ? fetchFromServer(url, ...options)
    : Promise.resolve({{ text: () => text }});
}};
"""


def _section(row: re.Match[str]) -> str:
    names = ID.findall(row[0])
    begin = "".join(f'<section id="{name}">' for name in names)
    return f"{begin}{row[0]}{'</section>' * len(names)} "


def text_of(page: str) -> str:
    """Return the text of a page of HTML with all that a result may lead to: sections and rows."""
    found = MAIN.search(page)
    if found is None:
        return ""
    text = SPACE.sub(" ", TAG.sub("", DROPPED.sub("", ROW.sub(_section, found[1]))))
    return f'<div role="main">{text}</div>'


def load(app: Sphinx, pagename: str, *unused: Any) -> None:
    """Have the page of search load the texts."""
    if pagename == "search":
        app.add_js_file(SCRIPT)


def write(app: Sphinx, exception: Exception | None) -> None:
    """Write the texts of all pages that the search knows."""
    if exception is not None or not isinstance(app.builder, StandaloneHTMLBuilder):
        return
    folder = Path(app.outdir)
    texts = {
        f"{name}.html": text_of((folder / f"{name}.html").read_text(encoding="utf-8"))
        for name in sorted(app.env.found_docs)
    }
    data = json.dumps(texts, ensure_ascii=False)
    (folder / "_static" / SCRIPT).write_text(FORM.format(data), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("html-page-context", load)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
