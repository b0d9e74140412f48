"""The fixtures of all tests of the repository, from whose root these are run."""

from tests.conftest import home, home_parent, migrated_copies, one_thread, real_data, tmp_path

__all__ = ["home", "home_parent", "migrated_copies", "one_thread", "real_data", "tmp_path"]
