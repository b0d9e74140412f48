"""The page of the settings."""

from __future__ import annotations

import json
import re
from html import unescape

from pydantic import SecretStr


def test_secrets_of_the_settings_are_not_shown(world, root):
    secret = {"token": SecretStr("bln_hush"), "database": "postgresql+psycopg://ada:hush@host/name"}
    secret |= {"webhook_url": SecretStr("https://host/hush"), "webhook_secret": SecretStr("whsec_hush")}
    secret["checkpoints"] = "sftp://ada:hush@host/kept"
    world.context.settings = world.settings.model_copy(update=secret)
    text = root.get("/settings").text
    assert text.count("set, not shown") == 4
    assert "sftp://ada:***@host/kept" in text
    assert "hush" not in text


def test_settings_are_shown_as_the_environment_has_them(root):
    values = dict(re.findall(r"<code>BLN_SEARCH_(\w+)</code></th><td><code>(.*?)</code>", root.get("/settings").text))
    assert json.loads(unescape(values["HOSTS"])) == ["testserver"]
    assert values["DATABASE"] == "not set"
    assert "None" not in values.values()
