"""What Ray reads from the environment when it is imported. Imported before Ray, by whatever imports Ray."""

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
_LONGEST = 40
"""Characters of a folder under which Ray's sockets keep within the 107 that a socket's path may have."""

_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # the other one prints a banner whatever the verbosity
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # lets a cluster of our own listen on 127.0.0.1 only
    "RAY_TQDM": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",  # a call to a head that is gone ends the process then, not at 60
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # results go to the ledger, not to files of every trial
    "TUNE_DISABLE_AUTO_INIT": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # the driver decides what Ctrl-C does
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000000",  # the ledger is the truth; nothing is resumed from Tune
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_STATE_REFRESH_PERIOD": "1000000",
    "TUNE_WARN_THRESHOLD_S": "30",
    "TUNE_RESULT_BUFFER_LENGTH": "1",
}


def prepare_environment() -> None:
    """Set what is not set. A cluster asks for a token: the user's own where there is one, else one of this process."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    if not any(os.environ.get(name) for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")):
        os.environ["RAY_AUTH_MODE"] = "token"
        if not Path("~/.ray/auth_token").expanduser().is_file():
            os.environ["RAY_AUTH_TOKEN_PATH"] = str(_own_token())


@lru_cache(maxsize=1)
def own_folder() -> Path:
    """A folder of this process for everything Ray writes, with a path short enough for its sockets; removed at exit."""
    base = Path(tempfile.gettempdir() if len(tempfile.gettempdir()) <= _LONGEST else "/tmp")  # noqa: S108
    for left in base.glob(f"{_PREFIX}*-*"):
        pid = left.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):  # whoever made it was killed
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base))
    owner = os.getpid()
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == owner else None)
    return folder


def _own_token() -> Path:
    path = own_folder() / "token"
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(32))
    return path
