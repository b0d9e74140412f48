"""A notebook shows ranked tables and their charts."""

from __future__ import annotations

import pytest

CELLS = [
    """
import bln_search
from tests.api.shifted_data import conditions, make_data, trained

ranked = bln_search.evaluate_configurations(
    trained(), {"source": make_data(200, 1)}, conditions(), batch_sizes=[4, 20], blends=[0.1]
)
""",
    "ranked",
    'ranked["large"]',
    "ranked.by_batch_size",
    "ranked.plot()",
    'ranked["large"].plot()',
    'ranked.by_batch_size.plot(over="mean")',
    "print(ranked.recommendation_for(batch_size=4))",
]


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """The executed cells."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in CELLS])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    nbformat.validate(notebook)
    return notebook.cells


pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # warnings of the notebook's packages


def data_of(cell):
    return {kind: value for output in cell.outputs for kind, value in output.get("data", {}).items()}


@pytest.mark.parametrize("index", [1, 2, 3])
def test_a_table_is_shown_as_html(cells, index):
    html = data_of(cells[index])["text/html"]
    assert html.startswith("<table>")
    assert html.count("<tr>") > 5


@pytest.mark.parametrize(("index", "kinds"), [(4, {"heatmap"}), (5, {"scatter"}), (6, {"scatter"})])
def test_a_chart_is_shown_as_a_figure(cells, index, kinds):
    figure = data_of(cells[index])["application/vnd.plotly.v1+json"]
    assert {trace["type"] for trace in figure["data"]} == kinds
    assert figure["layout"]["title"]["text"]


def test_text_is_printed(cells):
    (output,) = cells[7].outputs
    assert output["output_type"] == "stream"
    assert "Worst condition" in output["text"]
