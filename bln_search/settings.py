"""Every setting that the environment may give."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Literal

from platformdirs import user_cache_path, user_config_path, user_data_path
from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from bln_search.core.errors import SpecError


def settings_file() -> Path:
    """The file of settings: BLN_SEARCH_SETTINGS, or settings.toml in the user's folder for such files."""
    given = os.environ.get("BLN_SEARCH_SETTINGS")
    return Path(given) if given else user_config_path("bln-search") / "settings.toml"


class Settings(BaseSettings):
    """Read from environment variables that start with BLN_SEARCH_, for example BLN_SEARCH_DATA, or a TOML file."""

    model_config = SettingsConfigDict(env_prefix="BLN_SEARCH_", frozen=True, extra="forbid")

    home: Path = Field(
        default_factory=lambda: user_data_path("bln-search"), description="folder of database and checkpoints"
    )
    data: Path | None = Field(default=None, description="folder of data sets; by default HOME/data")
    cache: Path = Field(
        default_factory=lambda: user_cache_path("bln-search"), description="folder of decoded data sets"
    )
    database: str | None = Field(default=None, description="database URL; by default SQLite in HOME")
    device: str = Field(default="auto", description="cpu, cuda, cuda:1 or auto")
    threads: int = Field(
        default=1, ge=1, description="threads of one trial on CPU; figures depend on it in the last digits"
    )

    server: str | None = Field(default=None, description="service that list, show and leaderboard ask, too")
    token: SecretStr | None = Field(default=None, description="access token; by default the one in HOME/token")
    studies: Path | None = Field(
        default=None,
        description="folder of study files that the pages offer; by default ./studies",
    )
    hosts: tuple[str, ...] = Field(
        default=("localhost", "127.0.0.1", "[::1]"), description="names the service answers to, as a JSON list"
    )
    largest_body: int = Field(default=1_000_000, ge=1000, description="bytes of a request")
    most_trials: int = Field(default=2_000, ge=1, description="trials of a study sent in")
    most_epochs: int = Field(default=100_000, ge=1, description="epochs of all trials of a study sent in")
    most_evaluations: int = Field(default=500_000, ge=1, description="evaluations of each split of a study sent in")
    largest_width: int = Field(default=8_192, ge=1, description="units of a layer of a study sent in")
    most_studies: int = Field(default=200, ge=1, description="studies of one owner that wait, run or pause")
    running_studies: int = Field(default=2, ge=1, description="studies of one owner that run side by side")
    requests_a_minute: int = Field(default=6_000, ge=1, description="requests of one account")
    free_bytes: int = Field(default=500_000_000, ge=0, description="room on the disk below which no study is taken")
    session_hours: float = Field(default=12.0, gt=0, le=720, description="how long a browser stays signed in")
    log_format: Literal["plain", "json"] = Field(default="plain", description="lines of the service and its workers")

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
        """Where data sets are looked for."""
        return self.data or self.home / "data"

    @property
    def studies_folder(self) -> Path | None:
        """Where the study files are that the pages offer, if anywhere."""
        folder = self.studies or Path("studies")
        return folder if folder.is_dir() else None

    @property
    def database_url(self) -> str:
        """The database."""
        return self.database or f"sqlite:///{self.home / 'ledger.sqlite3'}"

    @property
    def token_file(self) -> Path:
        """Where the first token of a service is left for the commands of the same user."""
        return self.home / "token"

    @property
    def checkpoints(self) -> Path:
        """Where trained networks are kept."""
        return self.home / "checkpoints"


def load_settings() -> Settings:
    """The settings from environment and file. Raises SpecError naming every one that cannot be used."""
    given = os.environ.get("BLN_SEARCH_SETTINGS")
    if given and not Path(given).is_file():
        raise SpecError("environment", [f"BLN_SEARCH_SETTINGS: there is no file {given}"])
    try:
        return Settings()
    except (tomllib.TOMLDecodeError, OSError, UnicodeDecodeError) as error:
        raise SpecError(str(settings_file()), [f"this cannot be read as TOML: {error}"]) from None
    except SettingsError as error:
        raise SpecError("environment", [f"{error}: write a list as JSON"]) from None
    except ValidationError as error:
        problems = [
            f"BLN_SEARCH_{str(details['loc'][0]).upper()}: {details['msg']}, not {details['input']!r}"
            for details in error.errors()
        ]
        raise SpecError("environment", problems) from None
