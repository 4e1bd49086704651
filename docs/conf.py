"""The site's configuration for Sphinx; `make docs` builds it into build/docs.

Pages are Markdown that is readable on GitHub too. Links lead to files of the repository, as they do
there; `docs/extensions` makes pages of those that stand outside this folder.
"""

import sys
from importlib.metadata import version as installed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

project = "groupcomm"
author = "the authors of groupcomm"
version = release = installed("groupcomm")
html_title = f"groupcomm {version}"

extensions = [
    "myst_parser",
    "sphinx_copybutton",
    "docs.extensions.contents",
    "docs.extensions.excerpts",
    "docs.extensions.figures",
    "docs.extensions.navigation",
    "docs.extensions.outside",
    "docs.extensions.reference",
    "docs.extensions.terms",
]
exclude_patterns = ["extensions"]
nitpicky = True
language = "en"

myst_heading_anchors = 4
myst_links_external_new_tab = False

html_theme = "furo"
html_static_path = ["extensions/static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"

copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True

default_role = "py:obj"  # in docstrings a name in backticks is code, and a link if it is public
add_module_names = False
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
