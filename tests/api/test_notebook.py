"""A notebook that a kernel executes: tables with pictures, and progress that leaves nothing behind."""

from __future__ import annotations

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # warnings of the notebook's packages

SETUP = """
import threading, time
import bln_search
from tests.api.shifted_data import conditions, make_data, trained

class Slow(list):
    def __iter__(self):
        for item in super().__iter__():
            time.sleep(0.15)
            yield item

network, slow, data = trained(), Slow(make_data(200, 1)), make_data()
"""
RUN = "bln_search.evaluate_configurations(network, slow, data)"
THREADS = f"""
tables = []
threads = [threading.Thread(target=lambda: tables.append({RUN})) for _ in range(2)]
for each in threads: each.start()
for each in threads: each.join()
len(tables)
"""
INTERRUPT = f"threading.Timer(1.2, lambda: __import__('_thread').interrupt_main()).start()\n{RUN}"


class Recorder(nbclient.NotebookClient):
    """A client that keeps every message of the kernel by cell."""

    def process_message(self, msg, cell, cell_index):
        self.messages.setdefault(cell_index, []).append(msg)
        return super().process_message(msg, cell, cell_index)


@pytest.fixture(scope="module")
def client():
    cells = [
        SETUP,
        RUN,
        RUN.replace("data)", "data, progress=False)"),
        "bln_search.check(network, slow, data)",
        THREADS,
    ]
    cells += ["bln_search.evaluate_configurations(network, slow, conditions())", INTERRUPT, "str(tables[0])"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in cells])
    recorder = Recorder(notebook, timeout=300, kernel_name="python3", allow_errors=True)
    recorder.messages = {}
    recorder.execute()
    nbformat.validate(notebook)
    return recorder


def outputs(client, index):
    return client.nb.cells[index].outputs


def progress(client, index):
    """The texts of each progress display of a cell."""
    shown = {}
    for message in client.messages[index]:
        if message["msg_type"] in ("display_data", "update_display_data"):
            name = message["content"]["transient"]["display_id"]
            shown.setdefault(name, []).append(message["content"]["data"])
    return shown


@pytest.mark.parametrize("index", [1, 2, 3, 5])
def test_a_table_is_shown_as_html_with_a_picture(client, index):
    html = outputs(client, index)[-1]["data"]["text/html"]
    assert html.startswith('<div class="bln-search">')
    assert '<svg viewBox="' in html
    assert 'aria-sort="ascending"' in html
    assert "<script" not in html


@pytest.mark.parametrize("index", [1, 3, 5])
def test_progress_is_updated_in_place_and_disappears(client, index):
    (texts,) = progress(client, index).values()
    assert "train_loader: " in texts[0]["text/plain"]
    assert all('<progress value="' in each["text/html"] for each in texts[:-1])
    assert texts[-1] == {"text/html": "", "text/plain": ""}
    assert [each.output_type for each in outputs(client, index)] == ["display_data", "execute_result"]
    assert outputs(client, index)[0]["data"] == texts[-1]


def test_without_progress_there_is_no_display(client):
    assert progress(client, 2) == {}


def test_each_thread_has_a_display_of_its_own(client):
    shown = progress(client, 4)
    assert len(shown) == 2
    assert all(texts[-1]["text/html"] == "" for texts in shown.values())
    assert outputs(client, 4)[-1]["data"]["text/plain"] == "2"


def test_an_interrupted_cell_leaves_no_display(client):
    (texts,) = progress(client, 6).values()
    assert len(texts) > 1
    assert texts[-1]["text/html"] == ""
    assert outputs(client, 6)[-1]["ename"] == "KeyboardInterrupt"


def test_no_line_is_printed(client):
    streams = [output.text for cell in client.nb.cells for output in cell.outputs if output.output_type == "stream"]
    assert not any("bln-search:" in text for text in streams)
