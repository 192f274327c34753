"""A server of S3 on loopback."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from tests.lakes import KEY, SECRET, needed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """The address of an S3 server that ends with the tests."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = needed("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(
    endpoint: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[str]:
    """The URL of an empty bucket, of the server that every tool of AWS is told of."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",  # for deltalake
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    needed("s3fs").S3FileSystem.clear_instance_cache()
    store = needed("fsspec").filesystem("s3", use_listings_cache=False)
    name = f"logs-{abs(hash(request.node.name)) % 10**9}"
    store.mkdir(name)
    yield f"s3://{name}"
    store.rm(name, recursive=True)
