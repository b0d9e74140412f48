"""Runs the migration scripts with Alembic, which takes a quarter of a second to load and is rarely needed."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def make_alembic_config() -> Config:
    """Alembic's configuration, without a file."""
    config = Config()
    config.set_main_option("script_location", "bln_search.storage:migrations")
    return config


def run_alembic_migrations(connection: Connection) -> None:
    """Run every migration that the database lacks, in the transaction of `connection`."""
    config = make_alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
