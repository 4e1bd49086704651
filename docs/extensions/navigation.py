"""The contents at the side of each page, without a copy of all headings of all pages for each.

Sphinx copies the headings and names of every page for every page, and then drops all but the titles
of pages. With some hundred pages that is most of the time of a build. So they are dropped first.
"""

from collections.abc import Callable
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx


def only_titles(toc: nodes.bullet_list) -> nodes.bullet_list:
    """Return the contents of one page with its title and its lists of pages, without headings."""
    short = toc.copy()
    for item in toc.children:
        copied = item.copy()
        if item.children:
            copied += item.children[0].deepcopy()
        lists = [each.copy() for each in item.findall(addnodes.toctree)]
        if lists:
            copied += nodes.bullet_list("", *lists)
        short += copied
    return short


def shorten(app: Sphinx, pagename: str, template: str, context: dict[str, Any], *_: Any) -> None:
    """Have the theme's contents of all pages made of titles."""
    whole: Callable[..., str] | None = context.get("toctree")
    if whole is None:
        return
    env = app.env
    if not hasattr(app, "groupcomm_titles"):
        titles = {name: only_titles(toc) for name, toc in env.tocs.items()}
        app.__dict__["groupcomm_titles"] = titles

    def toctree(**options: Any) -> str:
        if not options.get("titles_only"):
            return whole(**options)
        before = env.tocs
        env.tocs = app.__dict__["groupcomm_titles"]
        try:
            return whole(**options)
        finally:
            env.tocs = before

    context["toctree"] = toctree


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx, before the theme does."""
    app.connect("html-page-context", shorten, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
