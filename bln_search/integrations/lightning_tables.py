"""The ranked table in the loggers of Lightning that take tables or texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bln_search.core.files.atomic import write_atomically
from bln_search.integrations.class_names import has_class_name
from bln_search.integrations.ranked_metrics import Ranked

_KEY = "bln_search/ranked"
_FILE = "bln_search_ranked.csv"


def log_table(logger: Any, ranked: Ranked, step: int) -> None:
    """Log a table in the way of the logger; other loggers than those of this function get none.

    TensorBoard gets it as text, Weights & Biases as a table, MLflow as two artifacts, and `CSVLogger` as a file beside
    its metrics.
    """
    if has_class_name(logger, ["TensorBoardLogger"]):
        text = "\n".join(f"    {line}" for line in str(ranked).splitlines())  # Markdown of preformatted text
        logger.experiment.add_text(_KEY, text, step)
    elif has_class_name(logger, ["WandbLogger"]):
        records = ranked.to_records()
        columns = list(records[0])
        logger.log_table(_KEY, columns, [[record[name] for name in columns] for record in records], step=step)
    elif has_class_name(logger, ["MLFlowLogger"]):
        logger.experiment.log_text(logger.run_id, str(ranked), f"{_KEY}.txt")
        logger.experiment.log_text(logger.run_id, ranked.to_csv(), f"{_KEY}.csv")
    elif has_class_name(logger, ["CSVLogger"]):
        folder = Path(logger.log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / _FILE, ranked.to_csv().encode())
