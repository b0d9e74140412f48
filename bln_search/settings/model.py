"""The settings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from platformdirs import user_cache_path, user_config_path, user_data_path
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from bln_search.core.checkpoints import CheckpointStore, FolderStore, open_checkpoint_store
from bln_search.core.credentials import check_no_control_characters, clean_line, clean_token, redact_secrets
from bln_search.core.sqlite import make_sqlite_url
from bln_search.core.urls import parse_service_address
from bln_search.integrations.trackers.target import TrackerTarget, parse_tracker_target
from bln_search.settings.database_url import check_sqlite_folder, find_sqlite_file, insert_password
from bln_search.settings.webhook import clean_webhook_url, decode_webhook_secret, read_webhook_key

SECRETS = ("token", "database", "webhook_url", "webhook_secret")
"""Settings whose values are never shown."""


def settings_file() -> Path:
    """The settings file: BLN_SEARCH_SETTINGS, or settings.toml in the user's configuration folder."""
    path = os.environ.get("BLN_SEARCH_SETTINGS")
    return Path(path).expanduser() if path else user_config_path("bln-search") / "settings.toml"


def _refuse_unusable_path(value: object) -> object:
    if isinstance(value, str):
        check_no_control_characters(value)
        if not value.strip():
            raise ValueError("is empty")
    return value


def _make_absolute(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError:
        raise ValueError("begins with ~ and the name of no user") from None


def _clean_location(location: str) -> str:
    """A URL without white space around it; a folder as an absolute path."""
    if "://" in location:
        return clean_line(location)
    _refuse_unusable_path(location)
    return str(_make_absolute(Path(location)))


def _clean_root_path(path: str) -> str:
    """The path with a slash before it and none at its end; empty for the root."""
    parts = [part for part in path.strip().split("/") if part]
    if not all(re.fullmatch(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]*", part) for part in parts):
        raise ValueError("write it as in /bln, with letters, digits and the characters . _ ~ -")
    return "".join(f"/{part}" for part in parts)


def _clean_public_url(url: str) -> str:
    """The URL without a slash at its end."""
    if parse_service_address(url).username is not None:
        raise ValueError("leave out the user: the URL is part of messages")
    return clean_line(url).rstrip("/")


def _check_tracker(target: str) -> str:
    """The target without white space around it."""
    parse_tracker_target(target)
    return clean_line(target)


def _clean_secret(secret: SecretStr) -> SecretStr:
    return SecretStr(clean_token(secret.get_secret_value()))


def _clean_webhook_url(url: SecretStr) -> SecretStr:
    return SecretStr(clean_webhook_url(url.get_secret_value()))


def _check_webhook_secret(secret: SecretStr) -> SecretStr:
    decode_webhook_secret(secret.get_secret_value())
    return secret


SettingPath = Annotated[Path, BeforeValidator(_refuse_unusable_path), AfterValidator(_make_absolute)]
"""A path whose `~` is the home folder of the user, made absolute."""

SettingLine = Annotated[str, AfterValidator(clean_line)]
SettingToken = Annotated[SecretStr, AfterValidator(_clean_secret)]


class Settings(BaseSettings):
    """Settings from environment variables with the prefix BLN_SEARCH_ (as BLN_SEARCH_DATA), or from a TOML file."""

    model_config = SettingsConfigDict(env_prefix="BLN_SEARCH_", env_ignore_empty=True, frozen=True, extra="forbid")

    home: SettingPath = Field(
        default_factory=lambda: user_data_path("bln-search"),
        description="folder of database and checkpoints",
    )
    data: SettingPath | None = Field(default=None, description="folder of data sets; by default HOME/data")
    cache: SettingPath = Field(
        default_factory=lambda: user_cache_path("bln-search"), description="folder of decoded data sets"
    )
    checkpoints: Annotated[str, AfterValidator(_clean_location)] | None = Field(
        default=None, description="folder or URL (s3://bucket/folder) of trained networks; by default HOME/checkpoints"
    )
    database: SettingLine | None = Field(default=None, description="database URL; by default SQLite in HOME")
    database_password_file: SettingPath | None = Field(
        default=None, description="file that holds the password of the database's user, for a URL without one"
    )
    device: SettingLine = Field(
        default="auto", description="cpu, cuda (all GPUs), GPUs by index or UUID (cuda:1, cuda:0,2), or auto"
    )
    trials_per_gpu: int = Field(default=1, ge=1, le=64, description="number of parallel trials on each GPU")
    cuda_graphs: bool = Field(default=True, description="record steps of fused trials as CUDA graphs")
    threads: int = Field(
        default=1, ge=1, description="threads of one trial on CPU; figures depend on it in the last digits"
    )

    save_training_seconds: Annotated[float, Field(ge=0)] | Literal["off"] = Field(
        default=60.0,
        description="seconds between two saves of an unfinished training, from which its next attempt resumes; 0 for "
        "a save after every epoch, off for none",
    )

    trial_timeout: Annotated[float, Field(gt=0)] | Literal["off"] = Field(
        default=21_600.0,
        description="seconds without progress (an epoch, a phase) after which the process of a trial is ended and its "
        "attempt has failed; the same for a step of an export; off for no limit",
    )

    tracker: Annotated[str, AfterValidator(_check_tracker)] | None = Field(
        default=None,
        description="tracker that `run` and `worker` write to while a study runs: mlflow:URI, tensorboard:DIR or "
        "wandb-offline:DIR",
    )

    server: SettingLine | None = Field(
        default=None, description="service that the commands use instead of the database"
    )
    token: SettingToken | None = Field(default=None, description="access token; by default the one in HOME/token")
    studies: SettingPath | None = Field(
        default=None,
        description="folder of study files that the web pages offer; by default ./studies",
    )
    hosts: tuple[str, ...] = Field(
        default=("localhost", "127.0.0.1", "[::1]"), description="host names of the service, as a JSON list"
    )
    root_path: Annotated[str, AfterValidator(_clean_root_path)] = Field(
        default="", description="path under which a reverse proxy serves the service, such as /bln; by default none"
    )
    public_url: Annotated[str, AfterValidator(_clean_public_url)] | None = Field(
        default=None, description="URL under which browsers reach the service, for links in messages of the webhook"
    )
    webhook_url: Annotated[SecretStr, AfterValidator(_clean_webhook_url)] | None = Field(
        default=None, description="URL to which the service posts a signed message when a study has ended"
    )
    webhook_secret: Annotated[SecretStr, AfterValidator(_check_webhook_secret)] | None = Field(
        default=None, description="secret that signs these messages: whsec_ and 24 to 64 random bytes in base64"
    )
    webhook_secret_file: SettingPath | None = Field(default=None, description="file that holds that secret instead")
    largest_body: int = Field(default=1_000_000, ge=1000, description="largest request body in bytes")
    largest_results: int = Field(
        default=64_000_000, ge=1000, description="largest request body with results of own networks in bytes"
    )
    header_seconds: float = Field(
        default=10.0, gt=0, description="seconds until the headers of a request must have arrived, from its connection"
    )
    body_seconds: float = Field(default=30.0, gt=0, description="seconds until the body of a request must have arrived")
    most_connections: int | None = Field(
        default=None, ge=8, description="largest number of connections; by default derived from the limit on open files"
    )
    most_trials: int = Field(default=2_000, ge=1, description="largest number of trials of a submitted study")
    most_epochs: int = Field(
        default=100_000, ge=1, description="largest number of epochs of all trials of a submitted study"
    )
    most_evaluations: int = Field(
        default=500_000, ge=1, description="largest number of evaluations per split of a submitted study"
    )
    largest_width: int = Field(
        default=8_192, ge=1, description="largest number of units per layer of a submitted study"
    )
    most_studies: int = Field(default=200, ge=1, description="largest number of active studies per owner")
    running_studies: int = Field(default=2, ge=1, description="largest number of running studies per owner")
    requests_a_minute: int = Field(default=6_000, ge=1, description="largest number of requests per account and minute")
    free_bytes: int = Field(
        default=500_000_000,
        ge=0,
        description="free disk space in bytes below which no study is accepted and no trial starts",
    )
    export_days: float = Field(
        default=7.0, gt=0, le=3650, description="days for which the archive of a requested export is kept"
    )
    export_bytes: int = Field(
        default=2_000_000_000,
        ge=1_000_000,
        description="bytes of all archives of exports; more let the first ones expire earlier",
    )
    most_exports: int = Field(
        default=20, ge=1, description="largest number of exports per account that wait or are being built"
    )
    session_hours: float = Field(default=12.0, gt=0, le=720, description="hours until a browser session expires")
    log_format: Literal["plain", "json"] = Field(
        default="plain", description="log format of the service and its workers"
    )
    log_file: SettingPath | None = Field(
        default=None, description="log file of the service, besides standard error; workers write NAME.worker.EXT"
    )
    log_file_bytes: int = Field(default=10_000_000, ge=1000, description="size in bytes at which a log file is rotated")
    log_file_count: int = Field(
        default=5, ge=1, le=1000, description="number of rotated log files that are kept, for each process"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment first, then the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, settings_file())

    @property
    def data_folder(self) -> Path:
        """The folder of data sets."""
        return self.data or self.home / "data"

    @property
    def study_files_folder(self) -> Path | None:
        """The folder of the study files that the pages offer; None if it does not exist."""
        folder = self.studies or Path("studies")
        return folder if folder.is_dir() else None

    @property
    def database_url(self) -> str:
        """The database URL. Raises SpecError if the password file cannot be used."""
        url = self.database or make_sqlite_url(self.home / "ledger.sqlite3")
        return url if self.database_password_file is None else insert_password(url, self.database_password_file)

    def checked_database_url(self, database: str | None = None) -> str:
        """The URL of the database to open.

        Args:
            database: URL given on the command line; by default that of the settings.

        Raises:
            SpecError: The password file cannot be used, or an SQLite file outside `home` has no folder.
        """
        url = database or self.database_url
        check_sqlite_folder(url, self.home)
        return url

    def read_webhook_key(self) -> bytes:
        """The key that signs messages of the webhook. Raises SpecError if there is none, or its file cannot be used."""
        return read_webhook_key(self.webhook_secret, self.webhook_secret_file)

    @property
    def token_file(self) -> Path:
        """The file with the first token of a service, for the commands of the same user."""
        return self.home / "token"

    @property
    def checkpoint_store(self) -> CheckpointStore:
        """The store of trained networks."""
        return open_checkpoint_store(self.checkpoints or self.home / "checkpoints")

    @property
    def tracker_target(self) -> TrackerTarget | None:
        """The tracker that `run` and `worker` write to; None for none."""
        return None if self.tracker is None else parse_tracker_target(self.tracker)

    @property
    def save_seconds(self) -> float | None:
        """Seconds between two saves of an unfinished training; None for none."""
        return None if self.save_training_seconds == "off" else self.save_training_seconds

    @property
    def trial_timeout_seconds(self) -> float | None:
        """Seconds without progress after which a trial is ended; None for no limit."""
        return None if self.trial_timeout == "off" else self.trial_timeout

    @property
    def export_lifetime(self) -> timedelta:
        """How long the archive of a requested export is kept."""
        return timedelta(days=self.export_days)

    @property
    def output_folders(self) -> list[Path]:
        """The folders of this machine that results are written to: home, checkpoints and an SQLite database."""
        store, file = self.checkpoint_store, None if self.database is None else find_sqlite_file(self.database)
        checkpoints = [store.path] if isinstance(store, FolderStore) else []
        database = [] if file is None else [file.parent]
        return [self.home, *checkpoints, *database]

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """The settings without passwords."""
        for name, value in super().__repr_args__():
            yield name, redact_secrets(value) if isinstance(value, str) else value
