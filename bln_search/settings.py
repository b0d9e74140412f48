"""Every setting that the environment may give."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_cache_path, user_data_path
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from bln_search.core.errors import SpecError


class Settings(BaseSettings):
    """Read from environment variables that start with BLN_SEARCH_, for example BLN_SEARCH_DATA."""

    model_config = SettingsConfigDict(env_prefix="BLN_SEARCH_", frozen=True)

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

    @property
    def data_folder(self) -> Path:
        """Where data sets are looked for."""
        return self.data or self.home / "data"

    @property
    def database_url(self) -> str:
        """The database."""
        return self.database or f"sqlite:///{self.home / 'ledger.sqlite3'}"

    @property
    def checkpoints(self) -> Path:
        """Where trained networks are kept."""
        return self.home / "checkpoints"


def load_settings() -> Settings:
    """The settings from the environment. Raises SpecError naming every variable that cannot be used."""
    try:
        return Settings()
    except ValidationError as error:
        problems = [
            f"BLN_SEARCH_{str(details['loc'][0]).upper()}: {details['msg']}, not {details['input']!r}"
            for details in error.errors()
        ]
        raise SpecError("environment", problems) from None
