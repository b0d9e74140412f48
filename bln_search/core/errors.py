"""Every error a user can meet.

BlnSearchError
├── SpecError            a study file that cannot be accepted
├── DataError            a data set that is missing, corrupt or too small
│   └── ChecksumError    a file whose content is not the published one
├── ModelError           a network that cannot be normalized or evaluated as asked
├── LedgerError          the database cannot do what was asked
│   ├── UnknownStudyError
│   ├── StaleAttemptError   a report that came after its lease had gone to another attempt
│   ├── StudyBusyError      another process is running this study
│   ├── StudyLostError      this process no longer runs the study: another does, or it was deleted
│   ├── SchemaChangedError  the database was upgraded while this process worked with it
│   ├── StudyChangedError   it was changed since it was read
│   └── KeyReusedError      an idempotency key that stands for another study
├── AccessError          a token that is not there, or not enough for what was asked
├── MissingPackageError  a part of bln-search that was not installed
├── ExportError          a network that cannot be taken along as asked
├── StorageFullError     no room left to write
├── CheckpointStoreError a bucket of checkpoints that cannot be reached, or refuses
├── BackupError          a backup that cannot be made, is damaged, or cannot be put back
├── OutputError          a file that cannot be written where it was asked for
├── ProcessLossError     processes for trials that this machine cannot start, or loses at once
├── ClusterError         a Ray cluster that cannot be reached, is too small, or is gone
│   └── ClusterSilentError  one that was joined answers no more: nothing can be asked of Ray in this process again
└── TransitionError      a state that cannot follow the present one

Each message says what was wrong, where, and what to do about it.
"""

from __future__ import annotations


class BlnSearchError(Exception):
    """Root of every error that bln-search raises on purpose; the command line prints it without a traceback."""


class SpecError(BlnSearchError):
    """A study file that cannot be accepted. `problems` holds one line each, all of them at once."""

    def __init__(self, source: str, problems: list[str]) -> None:
        self.source = source
        self.problems = problems
        super().__init__("\n".join(f"{source}: {problem}" for problem in problems))


class DataError(BlnSearchError):
    """A data set that is missing, corrupt or too small for what was asked."""


class DataAbsentError(DataError):
    """Files of a data set that are not on this machine, or that it cannot read: another one may have them."""


class ChecksumError(DataError):
    """A file whose content is not the published one."""


class ModelError(BlnSearchError):
    """A network that cannot be normalized or evaluated as asked."""


class LedgerError(BlnSearchError):
    """The database cannot do what was asked."""


class DamagedRecordError(LedgerError):
    """A record of the database that cannot be read back; the others can."""


class UnknownStudyError(LedgerError):
    """No study of that name or number in this database."""


class StaleAttemptError(LedgerError):
    """A report from an attempt that no longer holds its trial; it was refused and nothing was written."""


class StudyBusyError(LedgerError):
    """Another live process is running this study."""


class StudyLostError(LedgerError):
    """This process no longer runs the study: its lease ran out and another took it, or it was deleted."""


class SchemaChangedError(LedgerError):
    """The database has tables of another version than this process knows: it must not write any more."""


class StudyChangedError(LedgerError):
    """The study has another revision than the one that was to be changed."""


class KeyReusedError(LedgerError):
    """An idempotency key that was sent before, with another study."""


class AccessError(BlnSearchError):
    """A token that is not there, or that does not allow what was asked."""


class MissingPackageError(BlnSearchError):
    """A part of bln-search whose packages were not installed."""

    def __init__(self, package: str | None, extra: str) -> None:
        super().__init__(f"{package} is not installed, which this needs: pip install 'bln-search[{extra}]'")


class ExportError(BlnSearchError):
    """A network that cannot be taken along as asked; nothing was written."""


class StorageFullError(BlnSearchError):
    """No room left on the disk; what was finished before is kept."""


class CheckpointStoreError(BlnSearchError):
    """The place of checkpoints cannot be reached or refuses what was asked; what was finished before is kept."""


class BackupError(BlnSearchError):
    """A backup that cannot be made, is damaged, or cannot be put back; what was there is as it was."""


class OutputError(BlnSearchError):
    """A file that cannot be written where it was asked for; nothing of it was written."""


class ProcessLossError(BlnSearchError):
    """This machine cannot start processes for trials, or loses them at once; another machine may."""


class ClusterError(BlnSearchError):
    """A Ray cluster that cannot be reached, is too small for what was asked, or is gone."""


class ClusterSilentError(ClusterError):
    """A joined Ray cluster that answers no more; this process can neither leave it nor join another."""


class TransitionError(BlnSearchError):
    """A state that cannot follow the present one."""
