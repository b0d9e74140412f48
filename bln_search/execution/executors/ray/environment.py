"""Environment variables that Ray reads when it is imported. Every module imports this one before Ray."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path

import psutil

_PREFIX = "bln"
_MAX_PATH_LENGTH = 40
"""Characters of the temporary folder with which the paths of Ray's sockets have at most 107 characters."""

_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # the new output prints a banner at every verbosity
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # lets a started cluster listen on 127.0.0.1 only
    "RAY_ROTATION_BACKUP_COUNT": "1",
    "RAY_ROTATION_MAX_BYTES": "10000000",  # what user code prints in a process is kept up to twice this size
    "RAY_TQDM": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",  # default 60; then a call to a lost head ends the process
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # results go to the ledger, not to files of every trial
    "TUNE_DISABLE_AUTO_INIT": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # the driver handles Ctrl-C
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000000",  # studies resume from the ledger, not from Tune
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_STATE_REFRESH_PERIOD": "1000000",
    "TUNE_WARN_THRESHOLD_S": "30",
    "TUNE_RESULT_BUFFER_LENGTH": "1",
}


def set_ray_environment_variables() -> None:
    """Set every variable that is not set. Ray's token is the user's token if there is one, else a new one."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    if not any(os.environ.get(name) for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")):
        os.environ["RAY_AUTH_MODE"] = "token"
        if not Path("~/.ray/auth_token").expanduser().is_file():
            os.environ["RAY_AUTH_TOKEN_PATH"] = str(_create_ray_token_file())


@lru_cache(maxsize=1)
def make_ray_temporary_folder() -> Path:
    """A folder of this process for the files of Ray, with a path short enough for its sockets; removed at exit."""
    base = Path(tempfile.gettempdir() if len(tempfile.gettempdir()) <= _MAX_PATH_LENGTH else "/tmp")  # noqa: S108
    for folder in base.glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):  # its process was killed
            shutil.rmtree(folder, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base))
    owner = os.getpid()
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == owner else None)
    return folder


def _create_ray_token_file() -> Path:
    path = make_ray_temporary_folder() / "token"
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(32))
    return path
