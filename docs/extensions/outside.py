"""Pages that are no files of docs/: READMEs of examples, commands, and sources that pages link to.

A link to a file of the repository works on GitHub by itself. On the site the READMEs of examples
are pages like others (`examples/chat`), and each other file is shown as a page of its own,
highlighted (`sources/groupcomm/engine/output.py`): the site needs neither network nor repository.
"""

import os
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx.addnodes import download_reference, pending_xref
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.environment import BuildEnvironment
from sphinx.environment.collectors import EnvironmentCollector
from sphinx.project import Project

from docs.extensions import command_pages

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = "sources"


def examples() -> Iterator[tuple[str, Path]]:
    """Yield the name of each page made of a README of examples, and the path of the README."""
    folder = ROOT / "examples"
    yield "examples/index", folder / "README.md"
    for path in sorted(folder.glob("*/README.md")):
        yield f"examples/{path.parent.name}", path


class ProjectWithOthers(Project):
    """Sphinx's list of pages, with those outside its folder."""

    def discover(self, *paths: Any, **options: Any) -> set[str]:
        """Find the pages below docs/, and add the examples and the commands."""
        super().discover(*paths, **options)
        for name, path in examples():
            self.docnames.add(name)
            self._docname_to_path[name] = Path(os.path.relpath(path, self.srcdir))
            self._path_to_docname[path] = name
        commands = [f"{command_pages.FOLDER}{name}" for name in command_pages.page_names()]
        self.docnames.update(commands)
        self._docname_to_path.update(dict.fromkeys(commands, Path("reference", "commands.md")))
        return self.docnames

    def path2doc(self, filename: Any) -> str | None:
        """Return the page of a file; None for Markdown that is no page, such as a README."""
        name = super().path2doc(filename)
        return None if name is not None and Path(name).is_absolute() else name


def add_others(app: Sphinx) -> None:
    """Let the build find the examples and commands too."""
    app.project.__class__ = ProjectWithOthers


class Links(EnvironmentCollector):
    """The files that each page links to, which are no pages: relative to the repository."""

    def process_doc(self, app: Sphinx, doctree: nodes.document) -> None:
        """Note the files of one page, and have their links lead to the pages made of them."""
        docname = app.env.docname
        for node in list(doctree.findall(download_reference)):
            path = Path(app.env.relfn2path(node["reftarget"], docname)[1])
            if path.is_file() and path.is_relative_to(ROOT):
                name = path.relative_to(ROOT).as_posix()
                files_of(app.env).setdefault(docname, set()).add(name)
                link = pending_xref("", *node.children, refdomain="", reftype=SOURCES)
                link["reftarget"] = name
                node.replace_self(link)

    def clear_doc(self, app: Sphinx, env: BuildEnvironment, docname: str) -> None:
        """Forget the files of a page."""
        files_of(env).pop(docname, None)

    def merge_other(
        self, app: Sphinx, env: BuildEnvironment, docnames: Any, other: BuildEnvironment
    ) -> None:
        """Add what another process has found."""
        for docname in docnames:
            if docname in files_of(other):
                files_of(env)[docname] = files_of(other)[docname]


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.reference | None:
    """Return the reference to the page of a file; None if something else is looked for."""
    if node["reftype"] != SOURCES:
        return None
    uri = app.builder.get_relative_uri(env.docname, f"{SOURCES}/{node['reftarget']}")
    return nodes.reference("", "", content, internal=True, refuri=uri)


def files_of(env: BuildEnvironment) -> dict[str, set[str]]:
    """Return the files that each page links to."""
    found: dict[str, set[str]] = env.__dict__.setdefault("groupcomm_files", {})
    return found


def pages_of_sources(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield a page for each file that is linked to."""
    if not isinstance(app.builder, StandaloneHTMLBuilder):
        return
    for name in sorted(set().union(*files_of(app.env).values())):
        text = (ROOT / name).read_text(encoding="utf-8")
        code = app.builder.highlighter.highlight_block(text, language_of(name), linenos="inline")
        body = f"<h1><code>{escape(name)}</code></h1>\n{code}"
        yield f"{SOURCES}/{name}", {"title": name, "body": body}, "page.html"


def language_of(name: str) -> str:
    """Return the name of a file's language, as Pygments calls it."""
    try:
        return str(get_lexer_for_filename(name).aliases[0])
    except ClassNotFound:
        return "text"


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.add_env_collector(Links)
    app.connect("builder-inited", add_others)
    app.connect("missing-reference", resolve)
    app.connect("html-collect-pages", pages_of_sources)
    return {"parallel_read_safe": True, "parallel_write_safe": True, "version": "1"}
