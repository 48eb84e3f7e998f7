"""TLS all the way: a server that proves itself by its certificate, for jobs and for hints."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from headrace.core import operations as ops
from headrace.drivers.postgres import PostgresDriver
from headrace.errors import StoreUnavailable
from headrace.stores.postgres import PostgresStore
from tests.process.redis_jobs import enqueue, job
from tests.servers import PgBouncerServer, find_pgbouncer, private_directory
from tests.servers.certificate import certificate
from tests.waiting import await_until


class Secured(PgBouncerServer):
    """Lets nobody in who does not speak TLS. In session mode, so that one can listen through it."""

    @property
    def plain_url(self) -> str:
        return f"{super().plain_url}?sslmode=require"


@pytest.fixture
def secured(pgbouncer_server: PgBouncerServer, postgres_url: str) -> Iterator[tuple[Secured, Path]]:
    """The server, and its certificate; the shared one says whether there is a program at all."""
    binary = find_pgbouncer()
    assert binary is not None
    with private_directory("pgbouncer") as directory:
        server = Secured(binary, directory, postgres_url)
        cert, key = certificate(directory)
        yield (
            server.start(
                pool_mode="session",
                client_tls_sslmode="require",
                client_tls_cert_file=str(cert),
                client_tls_key_file=str(key),
            ),
            cert,
        )
        server.stop()


def open_driver(server: Secured, name: str, tls: str) -> PostgresDriver:
    plain = server.plain_url.partition("?")[0]
    listen = quote(f"{plain}?{tls}", safe="")
    return PostgresDriver(f"{plain}?pgbouncer=1&{tls}&listen={listen}", PostgresStore(prefix=f"{name}_"))


@pytest.mark.parametrize("mode", ["require", "verify-full"])
async def test_jobs_and_hints_go_through_tls(mode: str, secured: tuple[Secured, Path], unique_name: str) -> None:
    server, cert = secured
    tls = f"sslmode={mode}" + (f"&sslrootcert={quote(str(cert), safe='')}" if mode == "verify-full" else "")
    driver = open_driver(server, unique_name, tls)
    wakeup = driver.wakeup("w", ["q"])
    assert await wakeup.wait(20)  # it listens now
    assert (await driver.arun(enqueue(job("a"))))[0].status == "new"
    assert await wakeup.wait(20)
    assert driver.run(ops.Get("a")) is not None
    await wakeup.aclose()
    await driver.aclose()
    await await_until(lambda: "tls=TLSv1" in server.log.read_text())


@pytest.mark.parametrize("tls", ["sslmode=disable", "sslmode=verify-full&sslrootcert=%2Fno%2Fsuch.pem"])
def test_no_tls_or_no_trust_is_refused(tls: str, secured: tuple[Secured, Path], unique_name: str) -> None:
    driver = open_driver(secured[0], unique_name, tls)
    with pytest.raises(StoreUnavailable, match=r"SSL required|such\.pem"):
        driver.run(ops.Workers())
    driver.close()
