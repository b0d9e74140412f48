"""Every setting that the environment may give."""

from __future__ import annotations

import os
import tomllib
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

from platformdirs import user_cache_path, user_config_path, user_data_path
from pydantic import Field, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from bln_search.core.checkpoints import CheckpointStore, FolderStore, open_checkpoint_store
from bln_search.core.errors import SpecError

SECRETS = ("token", "database")
"""Settings whose values are never shown."""


def settings_file() -> Path:
    """The settings file: BLN_SEARCH_SETTINGS, or settings.toml in the user's configuration folder."""
    path = os.environ.get("BLN_SEARCH_SETTINGS")
    return Path(path) if path else user_config_path("bln-search") / "settings.toml"


class Settings(BaseSettings):
    """Settings from environment variables with the prefix BLN_SEARCH_ (as BLN_SEARCH_DATA), or from a TOML file."""

    model_config = SettingsConfigDict(env_prefix="BLN_SEARCH_", frozen=True, extra="forbid")

    home: Path = Field(
        default_factory=lambda: user_data_path("bln-search"),
        description="folder of database and checkpoints",
    )
    data: Path | None = Field(default=None, description="folder of data sets; by default HOME/data")
    cache: Path = Field(
        default_factory=lambda: user_cache_path("bln-search"), description="folder of decoded data sets"
    )
    checkpoints: str | None = Field(
        default=None, description="folder or URL (s3://bucket/folder) of trained networks; by default HOME/checkpoints"
    )
    database: str | None = Field(default=None, description="database URL; by default SQLite in HOME")
    database_password_file: Path | None = Field(
        default=None, description="file that holds the password of the database's user, for a URL without one"
    )
    device: str = Field(
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
        "attempt has failed; off for no limit",
    )

    server: str | None = Field(default=None, description="service that the commands use instead of the database")
    token: SecretStr | None = Field(default=None, description="access token; by default the one in HOME/token")
    studies: Path | None = Field(
        default=None,
        description="folder of study files that the web pages offer; by default ./studies",
    )
    hosts: tuple[str, ...] = Field(
        default=("localhost", "127.0.0.1", "[::1]"), description="host names of the service, as a JSON list"
    )
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
    log_file: Path | None = Field(
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
        url = self.database or f"sqlite:///{self.home / 'ledger.sqlite3'}"
        return url if self.database_password_file is None else _insert_password(url, self.database_password_file)

    @property
    def token_file(self) -> Path:
        """The file with the first token of a service, for the commands of the same user."""
        return self.home / "token"

    @property
    def checkpoint_store(self) -> CheckpointStore:
        """The store of trained networks."""
        return open_checkpoint_store(self.checkpoints or self.home / "checkpoints")

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
        store, url = self.checkpoint_store, self.database or ""
        checkpoints = [store.path] if isinstance(store, FolderStore) else []
        database = [Path(url.removeprefix("sqlite:///")).parent] if url.startswith("sqlite:///") else []
        return [self.home, *checkpoints, *database]


def _insert_password(url: str, file: Path) -> str:
    """Put the password of the file into the URL, unless the URL has a password or no user."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return url  # opening the database reports the error
    if parsed.username is None or parsed.password is not None:
        return url
    source = "BLN_SEARCH_DATABASE_PASSWORD_FILE"
    try:
        password = file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(source, [f"{file} cannot be read: {error}"]) from None
    if not password:
        raise SpecError(source, [f"{file} is empty: write the password into it"])
    return parsed.set(password=password).render_as_string(hide_password=False)


def load_settings() -> Settings:
    """The settings from environment and file. Raises SpecError with every invalid setting."""
    path = os.environ.get("BLN_SEARCH_SETTINGS")
    if path and not Path(path).is_file():
        raise SpecError("environment", [f"BLN_SEARCH_SETTINGS: there is no file {path}"])
    try:
        return Settings()
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise SpecError(str(settings_file()), [f"this cannot be read as TOML: {error}"]) from None
    except SettingsError as error:
        raise SpecError("environment", [f"{error}: write a list as JSON"]) from None
    except ValidationError as error:
        raise _invalid_settings(error) from None


def _invalid_settings(error: ValidationError) -> SpecError:
    """Every invalid setting with its source, without the values of settings that are or may be secret."""
    environment_names = {name.upper() for name in os.environ}
    problems: dict[bool, list[str]] = {True: [], False: []}
    for details in error.errors():
        key = str(details["loc"][0])
        variable = f"BLN_SEARCH_{key.upper()}"
        in_environment = variable in environment_names
        problems[in_environment].append(f"{variable if in_environment else key}: {_problem_text(key, details)}")
    sources = (("environment", True), (str(settings_file()), False))
    invalid_sources = [source for source, in_environment in sources if problems[in_environment]]
    return SpecError(" and ".join(invalid_sources), problems[True] + problems[False])


def _problem_text(key: str, details: ErrorDetails) -> str:
    if details["type"] == "extra_forbidden":
        similar = get_close_matches(key, Settings.model_fields, n=1)
        return "there is no such setting" + (f"; did you mean {similar[0]}?" if similar else "")
    return details["msg"] if key in SECRETS else f"{details['msg']}, not {details['input']!r}"
