"""Settings of the documentation site: `sphinx-build -W -b html docs docs/_build/html`. It needs no network."""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

from omnidc import __version__

project = "omnidc"
author = "the omnidc authors"
copyright = "the omnidc authors, Apache-2.0"
release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
exclude_patterns = ["_build", "demo"]
highlight_language = "none"  # indented blocks are shell commands and files, not Python
suppress_warnings = ["myst.header"]  # an included file starts at its own heading level

html_theme = "furo"
html_title = f"omnidc {release}"
html_math_renderer = "mathml"  # MathJax would be loaded from the network

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autodoc_default_options = {"show-inheritance": False}
python_maximum_signature_line_length = 100

_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_ARGUMENT = re.compile(r"([a-z_]\w*): (.*)")


def markdown_to_rst(text: str) -> str:
    """Return a docstring line whose `code` is literal; | and * in its prose mean themselves, as in the equations."""
    prose, *rest = _CODE.split(text)
    result = re.sub(r"([|*])", r"\\\1", prose)
    for code, after in zip(rest[::2], rest[1::2]):
        result += f"``{code}``\\ " + re.sub(r"([|*])", r"\\\1", after)
    return result


def process_docstring(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Turn a docstring's Markdown into reStructuredText: inline code, and "name: meaning" lists of arguments."""
    result: list[str] = []
    in_argument = False
    for line in lines:
        if argument := _ARGUMENT.fullmatch(line):
            result += ["", f"``{argument[1]}``", f"    {markdown_to_rst(argument[2])}"]
        elif line.startswith(">>>"):
            result.append(line)
        else:
            ends = in_argument and line and not line.startswith(" ")
            result += [""] * bool(ends) + [markdown_to_rst(line)]
        in_argument = bool(argument) or (in_argument and line.startswith(" "))
    lines[:] = result


def inline_math(self: HTML5Translator, node: nodes.math) -> None:
    """Write an equation as MathML, which browsers draw without a script."""
    self.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def block_math(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a displayed equation as MathML."""
    self.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", process_docstring)
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
