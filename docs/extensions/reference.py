"""The reference's part of Sphinx: pages get the texts that are made of the code.

A block with the language ``{generated}`` stands for a text in Markdown::

    ```{generated} names groupcomm_client.history
    ```

`GENERATORS` has the first word of each; the other words are its arguments. They are pure functions,
tested without Sphinx. Docstrings pass through `docstrings.to_rst`, and a name in backticks leads to
its description, if it is public.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform

from docs.extensions.api_pages import describe_names
from docs.extensions.code_tables import (
    describe_codes,
    describe_errors,
    describe_keys,
    describe_log,
    describe_metrics,
)
from docs.extensions.command_pages import (
    FOLDER,
    describe_commands,
    describe_page,
    describe_statuses,
)
from docs.extensions.docstrings import to_rst, with_defaults
from docs.extensions.public_names import public_names

GENERATORS: Final[dict[str, Callable[..., str]]] = {
    "codes": describe_codes,
    "commands": describe_commands,
    "configuration": describe_keys,
    "errors": describe_errors,
    "log": describe_log,
    "metrics": describe_metrics,
    "names": lambda module, *names: describe_names(module, names),
    "statuses": describe_statuses,
}
"""What a page can ask for, by the first word of the block."""

_BLOCK: Final = re.compile(r"^```\{generated\} (.+)\n((?:.*\n)*?)```$", re.MULTILINE)


def expand(text: str) -> str:
    """Return a page with the generated texts in place of the blocks that ask for them.

    Raises:
        LookupError: a block asks for something that there is not.
    """

    def generate(found: re.Match[str]) -> str:
        what, *words = f"{found[1]} {found[2]}".split()
        return GENERATORS[what](*words)

    return _BLOCK.sub(generate, text)


def expand_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Expand the source of a page before it is read; that of a command is made as a whole."""
    if docname.startswith(FOLDER):
        source[0] = describe_page(docname.removeprefix(FOLDER))
    else:
        source[0] = expand(source[0])


def convert_docstring(
    app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Convert a docstring for autodoc, before napoleon sees it."""
    lines[:] = to_rst(lines, value)


class PlainNames(SphinxPostTransform):
    """Has references of Python name one object: that of the same class or module, or a whole name.

    Sphinx would take any name with the same end, so that `bytes` leads to some method.
    """

    default_priority = 5

    def run(self, **kwargs: Any) -> None:
        """Change the references of one page."""
        for node in self.document.findall(pending_xref):
            if node.get("refdomain") == "py" and "refspecific" in node:
                del node["refspecific"]


def convert_signature(
    app: Sphinx, what: str, name: str, value: Any, options: Any, signature: str, returns: str
) -> tuple[str, str] | None:
    """Convert the signature of a class for autodoc."""
    return (with_defaults(signature, value), returns) if signature else None


def resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: nodes.Element
) -> nodes.Node | None:
    """Return a link for a name that is no whole one; the text, if it is not that of one object.

    A name leads to the public object of this name, `Message.causes` also to its member. Anything
    else in backticks is the name of an argument or a value, and is plain code.
    """
    if node.get("refdomain") != "py":
        return None
    full = whole_name(str(node["reftarget"]).removesuffix("()"))
    entry = env.domains.python_domain.objects.get(full)
    if entry is None:
        return contnode
    return _link(app, node, entry.docname, entry.node_id, contnode)


def whole_name(short: str) -> str:
    """Return the public name that a short one stands for; "" if there is none, or several."""
    name, dot, member = short.partition(".")
    found = {each.first for each in public_names() if each.name == name}
    main = {each for each in found if each.startswith("groupcomm_client.") and each.count(".") == 1}
    found = main or found
    return f"{found.pop()}{dot}{member}" if len(found) == 1 else ""


def _link(
    app: Sphinx, node: pending_xref, docname: str, anchor: str, contnode: nodes.Element
) -> nodes.reference:
    uri = app.builder.get_relative_uri(str(node["refdoc"]), docname)
    return nodes.reference("", "", contnode, internal=True, refuri=f"{uri}#{anchor}")


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx, and set up autodoc and napoleon for docstrings of this project."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", convert_docstring, priority=100)
    app.connect("autodoc-process-signature", convert_signature)
    app.setup_extension("sphinx.ext.napoleon")
    app.connect("source-read", expand_page, priority=100)
    app.add_post_transform(PlainNames)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
