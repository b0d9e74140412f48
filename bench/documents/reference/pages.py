"""The pages with generated parts: the marker `<!-- generated: NAME -->` stands for what the program says of itself.

Only the tables of the study file are also committed, so that they can be read in the repository.
"""

from __future__ import annotations

import re

from bench.documents.reference import study_file
from bench.documents.reference.command_line import commands_section, settings_section
from bench.documents.reference.python_api import python_section
from bench.documents.reference.rest_api import rest_section

SECTIONS = {
    "commands": commands_section,
    "settings": settings_section,
    "rest": rest_section,
    "python": python_section,
}


def render(name: str, markdown: str) -> str:
    """Return the text of a page with its generated parts.

    Args:
        name: File name of the page, such as `studies.md`.
        markdown: Its text in the repository.
    """
    if name == study_file.PAGE.name:
        return study_file.render(markdown)
    return re.sub(r"<!-- generated: (\w+) -->", lambda marker: SECTIONS[marker[1]](), markdown)
