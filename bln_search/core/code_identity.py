"""The code that makes the results of a study: digests of its source files, and how they changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

CODE = "code"
"""Key of the code identity in the provenance of a checkpoint."""

CODE_CHANGES = "code_changes"
"""Key of the sentences about changes of the code in what is exported."""


@dataclass(frozen=True)
class CodeIdentity:
    """Digests of source files by their names.

    Attributes:
        plugins: Files of the network, data set, task and corruptions of installed packages.
        built_in: Files and packages of bln-search that decide the results.
    """

    plugins: Mapping[str, str] = field(default_factory=dict)
    built_in: Mapping[str, str] = field(default_factory=dict)

    def to_json_object(self) -> dict[str, dict[str, str]]:
        """The digests as a JSON object."""
        return {"plugins": dict(self.plugins), "built_in": dict(self.built_in)}

    @staticmethod
    def from_json_object(values: Mapping[str, Any]) -> CodeIdentity:
        """The identity that `to_json_object` returned."""
        return CodeIdentity(values["plugins"], values["built_in"])


def list_differing_files(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the files whose digests differ, or that only one side has."""
    return tuple(sorted(name for name in {*before, *now} if before.get(name) != now.get(name)))


@dataclass(frozen=True)
class CodeVersion:
    """A version of the code from which results of a study come.

    Attributes:
        identity: Its digests.
        bln_search: Version of bln-search.
        since: When it was first used.
        changed: Names of the files that differ from the version before; empty for the first one.
        is_accepted: Whether a person accepted the change; False for a change of bln-search alone, which needs none.
        has_earlier_results: Whether the study had results before, whose code was not recorded.
    """

    identity: CodeIdentity
    bln_search: str
    since: datetime
    changed: tuple[str, ...] = ()
    is_accepted: bool = False
    has_earlier_results: bool = False

    @property
    def change_sentence(self) -> str | None:
        """The change for people; None for the first version."""
        when = f"{self.since:%Y-%m-%d %H:%M} UTC"
        if self.has_earlier_results:
            return f"The code of the results before {when} was not recorded."
        if not self.changed:
            return None
        files = ", ".join(self.changed)
        if self.is_accepted:
            return (
                f"The code of this study changed: {files}. The change was accepted at {when} with --accept-code-change."
            )
        return f"The code of bln-search changed during this study: {files} (version {self.bln_search}, {when})."


@dataclass(frozen=True)
class StudyCode:
    """Every version of the code from which results of a study come, oldest first."""

    versions: tuple[CodeVersion, ...]

    @property
    def newest(self) -> CodeIdentity:
        """The identity of the newest version."""
        return self.versions[-1].identity

    @property
    def change_sentences(self) -> tuple[str, ...]:
        """Every change for people."""
        return tuple(text for version in self.versions if (text := version.change_sentence) is not None)

    def has_plugins(self, identity: CodeIdentity) -> bool:
        """Whether a version has the same code of plugins."""
        return any(version.identity.plugins == identity.plugins for version in self.versions)

    def encode(self) -> str:
        """The versions as JSON."""
        return json.dumps(
            [
                {**asdict(version), "identity": version.identity.to_json_object(), "since": version.since.isoformat()}
                for version in self.versions
            ]
        )

    @staticmethod
    def decode(text: str) -> StudyCode:
        """The versions that `encode` wrote."""
        return StudyCode(
            tuple(
                CodeVersion(
                    **{
                        **values,
                        "identity": CodeIdentity.from_json_object(values["identity"]),
                        "since": datetime.fromisoformat(values["since"]),
                        "changed": tuple(values["changed"]),
                    }
                )
                for values in json.loads(text)
            )
        )
