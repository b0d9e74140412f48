"""The Hugging Face Hub: push an exported network, and load one without executing anything of its repository."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from bln_search.api.export.description import ExportDescription, StudyNetworkDescription
from bln_search.api.export.files import (
    CARD_FILE,
    CONFIGURATION_FILE,
    FORM_FILES,
    PARITY_FILE,
    WEIGHTS_FILE,
    check_file_sha256,
    read_export_description,
)
from bln_search.api.export.loading import load
from bln_search.api.export.own_export import export
from bln_search.core.errors import DataError, HubError, MissingPackageError
from bln_search.core.version import VERSION

try:
    from huggingface_hub import CommitInfo, CommitOperationAdd, CommitOperationDelete, HfApi

    from bln_search.integrations.hub_errors import report_hub_errors, report_upload_errors
except ModuleNotFoundError as error:
    if (error.name or "").startswith("bln_search"):
        raise
    raise MissingPackageError(error.name, "hub") from error

_MOST_DESCRIPTION_BYTES = 16 * 1024 * 1024
"""A description of ten thousand layers has 4 MB."""


def push_to_hub(
    folder_or_network: str | Path | nn.Module,
    repo_id: str,
    *,
    commit_message: str = f"Upload a network with bln-search {VERSION}",
    private: bool | None = None,
    token: str | bool | None = None,
    revision: str | None = None,
    create_pr: bool = False,
    **export_options: Any,
) -> CommitInfo:
    """Upload an export to a model repository in one commit. The repository and the branch are created if missing.

    The files are those that `bln_search.export` or `bln-search export` wrote, and no others of the folder. Files of an
    earlier export that this one does not have are deleted in the same commit. The card may be edited before.

    Args:
        folder_or_network: A folder with an export, or a network with layers of bln-search, which is exported first.
        repo_id: The repository, as in `user/name`.
        commit_message: First line of the commit.
        private: Whether a new repository is private; None for the default of the account.
        token: A token with the right to write; None for that of `hf auth login`.
        revision: A branch; None for the main one.
        create_pr: Open a pull request instead of a commit to the branch.
        **export_options: Arguments of `bln_search.export` for a network, such as `example_inputs`.

    Returns:
        The commit, with its address as `commit_url`.

    Raises:
        HubError: The Hub cannot be reached or refuses; or the repository is public although `private` is true. Nothing
            is committed.
        DataError: The folder is not an export, or a file of it is damaged.
        ExportError: The network cannot be exported.
        TypeError: Options of an export are given with a folder.
    """
    if isinstance(folder_or_network, nn.Module):
        with tempfile.TemporaryDirectory(prefix="bln-search-") as temporary:
            folder = Path(temporary) / "export"
            export(folder_or_network, folder, **export_options)
            return push_to_hub(
                folder,
                repo_id,
                commit_message=commit_message,
                private=private,
                token=token,
                revision=revision,
                create_pr=create_pr,
            )
    if export_options:
        names = ", ".join(export_options)
        raise TypeError(f"{folder_or_network} is exported already: leave out {names}, or give the network")
    files = _list_exported_files(Path(folder_or_network))
    api = HfApi(token=token, library_name="bln-search", library_version=VERSION)
    with report_upload_errors(repo_id, revision):
        repository = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        if private and not api.model_info(repository).private:
            raise HubError(f"{repo_id} is public already: make it private on its page, or leave out private=True")
        if revision is not None and not revision.startswith("refs/"):
            api.create_branch(repository, branch=revision, exist_ok=True)
        outdated = _FILES_OF_EXPORTS.difference(files).intersection(api.list_repo_files(repository, revision=revision))
        return api.create_commit(
            repository,
            [
                *(CommitOperationAdd(path_in_repo=name, path_or_fileobj=path) for name, path in files.items()),
                *(CommitOperationDelete(path_in_repo=name) for name in sorted(outdated)),
            ],
            commit_message=commit_message,
            revision=revision,
            create_pr=create_pr,
        )


def from_pretrained(
    repo_id: str,
    *,
    model: nn.Module | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
) -> nn.Module:
    """Load a network that `push_to_hub` uploaded, in evaluation mode on the CPU.

    Only its description (JSON) and its weights (safetensors) are downloaded, both of one commit. Nothing of the
    repository is executed: programs (`model.pt2`) are not loaded, because torch reads them with pickle.

    Args:
        repo_id: The repository, as in `user/name`.
        model: For a network of your own, an instance of it, converted like the exported one. It keeps its device. A
            network of a study needs none.
        revision: A branch, a tag or a commit; None for the main branch.
        token: A token, for a private repository; None for that of `hf auth login`.
        cache_dir: Folder of downloads; None for that of `huggingface_hub`.
        local_files_only: Use the cache without a request.

    Returns:
        The network, or `model`.

    Raises:
        HubError: The Hub cannot be reached, or there is no such repository or revision.
        DataError: The repository is not an export, is damaged, lacks weights, or has a network of your own and `model`
            is missing or another one. `model` is unchanged then.
        ModelError: The network of a study needs a package that is not installed, or is described with more parameters
            than its weights have.
    """
    api = HfApi(token=token, library_name="bln-search", library_version=VERSION)
    get = partial(api.hf_hub_download, repo_id, cache_dir=cache_dir, local_files_only=local_files_only)
    with report_hub_errors(repo_id, revision):
        described = api.hf_hub_download(
            repo_id,
            CONFIGURATION_FILE,
            revision=revision,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
            dry_run=True,
        )
        if (described.file_size or 0) > _MOST_DESCRIPTION_BYTES:
            raise DataError(
                f"{CONFIGURATION_FILE} of {repo_id} has {described.file_size:,} bytes: it is no description"
            )
        folder = Path(get(CONFIGURATION_FILE, revision=revision)).parent  # its name is the commit
    description = read_export_description(folder)
    _check_loads_without_execution(repo_id, description, model)
    with report_hub_errors(repo_id, revision):
        get(WEIGHTS_FILE, revision=folder.name)
    return load(folder, model=model)


_FILES_OF_EXPORTS = FORM_FILES | {CONFIGURATION_FILE, PARITY_FILE, CARD_FILE}


def _list_exported_files(folder: Path) -> dict[str, Path]:
    """The files of an export by name. Raises DataError if one is missing or damaged."""
    description = read_export_description(folder)
    _check_file_names(str(folder), description)
    for name in description.files:
        check_file_sha256(folder / name, description.files)
    names = (*description.files, CONFIGURATION_FILE, PARITY_FILE, CARD_FILE)
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{folder} lacks {', '.join(missing)}: export the network again")
    return {name: folder / name for name in names}


def _check_file_names(where: str, description: ExportDescription) -> None:
    unknown = sorted(description.files.keys() - FORM_FILES)
    if unknown:
        raise DataError(f"{CONFIGURATION_FILE} of {where} names files that no export has: {', '.join(unknown)[:200]}")


def _check_loads_without_execution(repo_id: str, description: ExportDescription, model: nn.Module | None) -> None:
    """Raise DataError unless the network needs nothing but its description and weights."""
    _check_file_names(repo_id, description)
    if WEIGHTS_FILE not in description.files:
        raise DataError(f'{repo_id} has no {WEIGHTS_FILE}: push an export with the format "safetensors"')
    if model is None and not isinstance(description, StudyNetworkDescription):
        raise DataError(
            f"{repo_id} has a network of a class that bln-search cannot build: give an instance, converted as before "
            f'the export, as in from_pretrained("{repo_id}", model=network). Programs are not loaded from the Hub, '
            "because torch reads them with pickle"
        )
