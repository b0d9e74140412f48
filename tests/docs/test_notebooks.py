"""The lines of the section on notebooks run in a kernel as they stand, and show a table."""

from __future__ import annotations

import pytest

from tests.docs.pages import PAGES, blocks, written

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # warnings of the notebook's packages

OWN = """
from tests.api.own_network import make_loader, make_network

model, train_loader, validation_loader = make_network(), make_loader(), make_loader(seed=1)
"""


def test_the_lines_of_the_page_show_a_table_with_a_picture():
    _, _, rest = written(PAGES["integrations.md"]).partition("\n## Notebooks\n")
    section = rest.partition("\n## ")[0]
    (lines,) = [block.text for block in blocks(PAGES["integrations.md"], "python") if block.text in section]
    assert lines.count("\n") <= 10
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text.strip()) for text in (OWN, lines)])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    html = notebook.cells[-1].outputs[-1]["data"]["text/html"]
    assert 'aria-sort="ascending"' in html
    assert "<svg " in html
