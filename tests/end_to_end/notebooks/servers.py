"""JupyterLab and marimo as people start them: processes on free ports of this machine, in folders of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import nbformat

from tests.conftest import ROOT

_PATIENCE = 90
"""Seconds until a server answers."""

_TOKEN = "token-of-the-test"


@contextmanager
def jupyterlab(folder, cells):
    """A function that gives the address of a notebook of the folder; `notebook.ipynb` has these cells.

    The page has `window.jupyterapp`, which runs commands.
    """
    write_notebook(folder / "notebook.ipynb", [nbformat.v4.new_code_cell(cell.strip()) for cell in cells])
    port = _free_port()
    options = ["--no-browser", "--allow-root", "--expose-app-in-browser", f"--ServerApp.root_dir={folder}"]
    options += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", f"--IdentityProvider.token={_TOKEN}"]
    with _server(folder, port, "jupyterlab", *options) as address:
        yield lambda name: f"{address}/lab/tree/{name}?token={_TOKEN}"


def write_notebook(path, cells):
    """Write a notebook that no one has signed, and return it."""
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)
    return notebook


def make_cell_with_output(html):
    """A cell that was executed, with an output of HTML."""
    output = nbformat.v4.new_output("execute_result", {"text/html": html, "text/plain": "text"}, execution_count=1)
    return nbformat.v4.new_code_cell("ranked", execution_count=1, outputs=[output])


@contextmanager
def marimo(folder, cells):
    """The address of a running notebook with these cells; names of a cell are those of later ones."""
    lines = ["import marimo", "app = marimo.App()"]
    for cell in cells:
        lines += ["@app.cell", "def _():", *(f"    {line}" for line in cell.strip().splitlines()), "    return"]
    source = folder / "notebook.py"
    source.write_text("\n".join(lines) + "\n")
    port = _free_port()
    with _server(
        folder, port, "marimo", "run", source, "--headless", "--no-token", "--host", "127.0.0.1", "-p", port
    ) as at:
        yield at


@contextmanager
def _server(folder, port, module, *options):
    environment = {**os.environ, "HOME": str(folder), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, options)],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
    try:
        _wait_until_it_answers(process, port, folder / "server.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_until_it_answers(process, port, log):
    end = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < end:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"no server on port {port}: {log.read_text()[-3000:]}")


def _free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
