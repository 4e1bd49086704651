"""Each word of the glossary can be linked to, and is found by the search.

The page is made of tables, which read well on GitHub. The words in the first column of a table
become terms: `[token](glossary.md#token)` leads to the row of the word.
"""

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.addnodes import index
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

PAGE = "glossary"


def words_of(cell: str) -> Iterator[str]:
    """Yield the words that a cell of the first column names: `client, program` are two."""
    for part in re.sub(r"\(.*?\)", "", cell).split(","):
        if word := part.strip():
            yield word


class Terms(SphinxTransform):
    """Notes the words of the glossary: as terms, as targets of links, and for the search."""

    default_priority = 800  # before Sphinx collects the entries of the index

    def apply(self, **kwargs: Any) -> None:
        """Give each row an anchor for each of its words."""
        if self.env.docname != PAGE:
            return
        slugs = self.env.metadata[PAGE].setdefault("myst_slugs", {})
        for body in self.document.findall(nodes.tbody):
            for row in body.findall(nodes.row):
                cell = row[0]
                for word in list(words_of(cell.astext())):
                    slug = nodes.make_id(word)
                    name = f"term-{slug}"
                    cell["ids"].append(name)
                    cell.append(index(entries=[("single", word, name, "main", None)]))
                    self.document.note_explicit_target(cell)
                    self.env.domains.standard_domain._note_term(word, name, cell)
                    slugs.setdefault(slug, (0, name, word))


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.add_transform(Terms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
