"""A study that is run in this process."""

from __future__ import annotations

from contextlib import closing, contextmanager

from bln_search.core.checkpoints import FolderStore
from bln_search.core.states import StudyState
from bln_search.execution.environment import ExecutionEnvironment
from bln_search.specs import parse_study
from bln_search.storage.ledger import open_and_upgrade_ledger
from bln_search.worker import run_study
from tests.support.in_process_executor import InProcessExecutor
from tests.support.watchers import RecordingWatcher


@contextmanager
def finished_study(text, folder):
    """Run a study with all its files in a folder; the ledger and the study."""
    environment = ExecutionEnvironment(folder, folder, FolderStore(folder / "checkpoints"))
    with closing(open_and_upgrade_ledger(f"sqlite:///{folder / 'ledger.sqlite3'}")) as ledger:
        study_id = ledger.studies.store_study_once(parse_study(text))
        state = run_study(ledger, study_id, InProcessExecutor(environment), RecordingWatcher())
        assert state is StudyState.COMPLETE
        yield ledger, ledger.studies.get(study_id)
