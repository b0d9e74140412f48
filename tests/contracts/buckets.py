"""An S3 server on this machine, with real HTTP requests."""

from __future__ import annotations

from contextlib import contextmanager

from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem


@contextmanager
def bucket_server(monkeypatch):
    """A server with the bucket `kept`; the environment names it and its keys, for child processes as well."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name, value in {
            "ACCESS_KEY_ID": "key",
            "SECRET_ACCESS_KEY": "secret",
            "DEFAULT_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        import boto3

        boto3.client("s3").create_bucket(Bucket="kept")
        yield server
    finally:
        server.stop()
        S3FileSystem.clear_instance_cache()  # fsspec keeps file systems by their URL, whatever the environment says
