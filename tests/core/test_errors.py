"""The error tree in the module's docstring is the class hierarchy."""

from __future__ import annotations

import re

from bln_search.core import errors


def hierarchy(error, level=0):
    for subclass in error.__subclasses__():
        if subclass.__module__ == errors.__name__:
            yield level, subclass.__name__
            yield from hierarchy(subclass, level + 1)


def test_the_documented_error_tree_is_the_class_hierarchy():
    lines = re.findall(r"^((?:│   )*)[├└]── (\w+)", errors.__doc__, re.MULTILINE)
    documented = [(len(indent) // 4, name) for indent, name in lines]
    assert sorted(documented) == sorted(hierarchy(errors.BlnSearchError))
