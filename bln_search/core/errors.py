"""The errors that bln-search raises on purpose.

BlnSearchError
├── SpecError            a study file is invalid
├── DataError            a data set is missing, corrupt or too small
│   ├── DataUnavailableOnMachineError  this machine does not have the files of a data set
│   │   └── DataReadError  the system cannot read a file of a data set at present
│   └── ChecksumError    the content of a file is not the published one
├── ModelError           a network cannot be normalized or evaluated
├── CodeChangedError     the code of a study is not the one that made its results
├── LedgerError          the database cannot do what a command needs
│   ├── DamagedRecordError  a record cannot be decoded
│   ├── MissingDatabaseError  there is no database to read
│   ├── UnknownStudyError
│   │   └── AmbiguousStudyError  a name does not determine a study
│   ├── StaleAttemptError   an attempt reported after it had ended
│   ├── StudyBusyError      another process runs this study
│   ├── StudyLeaseLostError      another process runs the study now, or it was deleted
│   ├── SchemaChangedError  the database was upgraded while this process used it
│   ├── StaleRevisionError  the study has changed since it was read
│   └── IdempotencyConflictError  an idempotency key was reused for another study
├── TagError             a tag of a study is invalid, or a study has too many
├── ShareLinkLimitError  a study has as many valid share links as are allowed
├── TokenManagementError           a token is unknown, or lacks the scope for a request
├── MissingPackageError  a package that a function needs is not installed
├── ExportError          a network cannot be exported
├── HubError             the Hugging Face Hub cannot be reached, or refuses a request
├── TrackerError         a tracker cannot be reached or refuses
├── ExportLimitError     an account has as many open exports as are allowed
├── StorageFullError     the disk is full
├── CheckpointStoreError a checkpoint store cannot be reached, or refuses access
│   └── WrongCheckpointStoreError  the networks of the database are in another store
├── BackupError          a backup cannot be created or restored, or is damaged
├── OutputFileError      an output file cannot be written
├── TrialProcessLostError  this machine cannot start processes for trials, or loses them at once
├── ClusterError         a Ray cluster cannot be reached, is too small, or is gone
│   └── ClusterUnresponsiveError  a joined cluster does not respond: this process must not call Ray again
└── StateTransitionError a state cannot follow the present one

BatchDependenceWarning  an applied configuration depends on the mini-batch
ShiftWarning            the inputs of a network that chooses its statistics online have shifted

Each message says what is wrong, where, and what to do.
"""

from __future__ import annotations


class BlnSearchError(Exception):
    """Root of every error that bln-search raises on purpose; the command line prints it without a traceback."""


class SpecError(BlnSearchError):
    """A study file is invalid.

    Attributes:
        source: The file.
        problems: Every problem, one line each.
    """

    def __init__(self, source: str, problems: list[str]) -> None:
        self.source = source
        self.problems = problems
        super().__init__("\n".join(f"{source}: {problem}" for problem in problems))


class DataError(BlnSearchError):
    """A data set is missing, corrupt or too small."""


class DataUnavailableOnMachineError(DataError):
    """This machine does not have the files of a data set, or cannot read them; another machine may."""


class DataReadError(DataUnavailableOnMachineError):
    """The system cannot read a file of a data set, such as for a stale handle; a later attempt may."""


class ChecksumError(DataError):
    """The content of a file is not the published one."""


class ModelError(BlnSearchError):
    """A network cannot be normalized or evaluated."""


class CodeChangedError(BlnSearchError):
    """The code of a study is not the one that made its results."""


class LedgerError(BlnSearchError):
    """The database cannot do what a command needs."""


class DamagedRecordError(LedgerError):
    """A record of the database cannot be decoded; other records can."""


class MissingDatabaseError(LedgerError):
    """A command that reads finds no database; it creates none."""


class UnknownStudyError(LedgerError):
    """No study of this name or number is in the database.

    Attributes:
        problem: What is wrong, without what to do.
    """

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(f"{problem}; {advice}" if advice else problem)
        self.problem = problem


class AmbiguousStudyError(UnknownStudyError):
    """A name does not determine a study: only the numbers of the studies that have it do."""


class StaleAttemptError(LedgerError):
    """An attempt reported after it had ended; the report was rejected and nothing was written."""


class StudyBusyError(LedgerError):
    """Another running process runs this study."""


class StudyLeaseLostError(LedgerError):
    """Another process runs the study now, because this process lost the lease; or the study was deleted."""


class SchemaChangedError(LedgerError):
    """The database schema has another version than this process: the process must not write any more."""


class StaleRevisionError(LedgerError):
    """The study has another revision than the request."""


class IdempotencyConflictError(LedgerError):
    """An idempotency key was reused for another study."""


class TagError(BlnSearchError):
    """A tag of a study is invalid, or a study has too many."""


class TokenManagementError(BlnSearchError):
    """A token is unknown, or lacks the scope for a request."""


class ShareLinkLimitError(BlnSearchError):
    """A study has as many valid share links as are allowed."""


class MissingPackageError(BlnSearchError):
    """A package that a function needs is not installed.

    Args:
        package: Name of the package.
        extra: Extra of bln-search that installs it; None for a package that is in no extra.
        alternative: What works without the package; None if nothing does.
    """

    def __init__(self, package: str | None, extra: str | None, alternative: str | None = None) -> None:
        requirement = package if extra is None else f"'bln-search[{extra}]'"
        otherwise = "" if alternative is None else f"; {alternative}"
        super().__init__(f"{package} is not installed, which this needs: pip install {requirement}{otherwise}")


class ExportError(BlnSearchError):
    """A network cannot be exported; nothing was written."""


class HubError(BlnSearchError):
    """The Hugging Face Hub cannot be reached, or refuses a request."""


class TrackerError(BlnSearchError):
    """A tracker such as MLflow cannot be reached or refuses; what it has already stays, and a later export resumes."""


class ExportLimitError(BlnSearchError):
    """An account has as many requested and running exports as are allowed."""


class StorageFullError(BlnSearchError):
    """The disk is full; finished results are stored."""


class CheckpointStoreError(BlnSearchError):
    """The checkpoint store cannot be reached or refuses access; finished results are stored."""


class WrongCheckpointStoreError(CheckpointStoreError):
    """The networks of the database are in another checkpoint store, or this process does not see theirs."""


class BackupError(BlnSearchError):
    """A backup cannot be created or restored, or is damaged; existing data are unchanged."""


class OutputFileError(BlnSearchError):
    """An output file cannot be written; nothing was written."""


class TrialProcessLostError(BlnSearchError):
    """This machine cannot start processes for trials, or loses them at once; another machine may."""


class ClusterError(BlnSearchError):
    """A Ray cluster cannot be reached, is too small for a trial, or is gone."""


class ClusterUnresponsiveError(ClusterError):
    """A joined Ray cluster does not respond; this process can neither leave it nor join another."""


class StateTransitionError(BlnSearchError):
    """A state cannot follow the present one."""


class BatchDependenceWarning(UserWarning):
    """An applied configuration depends on the mini-batch: the output for an example changes with the other examples."""


class ShiftWarning(UserWarning):
    """The inputs of a network that chooses its statistics online have shifted for several mini-batches in a row."""
