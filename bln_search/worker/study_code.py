"""Compares the code of now with the code that made the results of a study."""

from __future__ import annotations

from bln_search.core.code_identity import CodeIdentity, CodeVersion, StudyCode, list_differing_files
from bln_search.core.errors import CodeChangedError
from bln_search.core.states import StudyState
from bln_search.core.version import VERSION
from bln_search.execution.code_identity import compute_code_identity, describe_changed_files
from bln_search.specs.records import StudyRecord
from bln_search.storage.ledger import Ledger


def check_code_of_study(
    ledger: Ledger,
    study: StudyRecord,
    present: CodeIdentity | None = None,
    *,
    accept_change: bool = False,
    adds_results: bool = False,
) -> StudyCode | None:
    """Compare the present code of a study with that of its results.

    A change of plugins must be accepted by a person. A change of bln-search itself needs no acceptance; it is recorded
    where results are added. A study whose code was not recorded is not compared.

    Args:
        ledger: Ledger with the study.
        study: The study.
        present: Its present code; None to compute it.
        accept_change: Record changed code as accepted instead of raising an error.
        adds_results: Whether the caller adds results to the study.

    Returns:
        Every version of the code of the results; None where none is recorded.

    Raises:
        CodeChangedError: The code of a plugin has changed, and no person accepted it.
        DataError, ModelError: A plugin cannot be loaded.
    """
    present, recorded = present or compute_code_identity(study.spec), study.code
    if recorded is None:
        if not adds_results or study.state is StudyState.COMPLETE:
            return None
        return _add_version(ledger, study, present, has_earlier_results=study.num_trials_with_result > 0)
    if not recorded.has_plugins(present):
        differing = list_differing_files(recorded.newest.plugins, present.plugins)
        if not accept_change:
            raise _make_error(study, differing)
        built_in = list_differing_files(recorded.newest.built_in, present.built_in)
        return _add_version(ledger, study, present, changed=(*differing, *built_in), is_accepted=True)
    if adds_results and all(version.identity != present for version in recorded.versions):
        changed = list_differing_files(recorded.newest.built_in, present.built_in)
        return _add_version(ledger, study, present, changed=changed)
    return recorded


def _add_version(
    ledger: Ledger,
    study: StudyRecord,
    identity: CodeIdentity,
    *,
    changed: tuple[str, ...] = (),
    is_accepted: bool = False,
    has_earlier_results: bool = False,
) -> StudyCode:
    version = CodeVersion(identity, VERSION, ledger.now(), changed, is_accepted, has_earlier_results)
    return ledger.studies.add_code_version(study.id, version)


def _make_error(study: StudyRecord, files: tuple[str, ...]) -> CodeChangedError:
    return CodeChangedError(
        f"study {study.id} ({study.name}): the code that made its results has changed: "
        f"{describe_changed_files(files)}. Restore it, or run the study under another name; or accept the change with "
        f"--accept-code-change, which is shown with the results (for a service: `bln-search verify "
        f"{study.id} --accept-code-change` on a worker's machine)"
    )
