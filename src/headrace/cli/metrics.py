"""`headrace metrics`."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import click

from headrace.cli.logs import LogFormat
from headrace.cli.options import Settings, app_option, pass_settings, verbose_option
from headrace.cli.output import say

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import CollectorRegistry

_HOST = "127.0.0.1"

Address = tuple[str, int]


def address(text: str) -> Address:
    """`PORT`, `HOST:PORT` or `[::1]:PORT`. Serves as the type of an option."""
    host, _, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else -1
    if not 0 <= number <= 65_535 or (":" in bare and bare == host):
        raise click.BadParameter(f"{text!r} is no address: write 9464, 127.0.0.1:9464 or [::1]:9464")
    return bare or _HOST, number


@click.command()
@click.option(
    "--listen",
    type=address,
    metavar="[HOST:]PORT",
    help=f"Serve them over HTTP until told to stop. Default of HOST: {_HOST}.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Log lines on standard error, with --listen.",
)
@app_option
@verbose_option
@pass_settings
def metrics(settings: Settings, *, listen: Address | None, log_format: LogFormat) -> None:
    """Print what the store knows in Prometheus' format, or serve it.

    All workers share the store, so one such process serves for all of them. Where the store does not answer,
    headrace_up is 0; printed once, the exit code says it too.

    \b
    Examples:
      headrace metrics
      headrace metrics --listen 9464
      headrace metrics --app shop.jobs:app --listen 0.0.0.0:9464
    """
    from headrace.errors import StoreError
    from headrace.observe.metrics import StoreCollector, rendered, unreachable

    app = settings.app()
    collector = StoreCollector(app)
    if listen is not None:
        from prometheus_client import CollectorRegistry

        from headrace.cli.logs import set_up

        set_up(log_format, verbose=settings.verbose)
        registry = CollectorRegistry()
        registry.register(collector)
        _ = app.driver  # what is missing for it is told now, and not to the first scrape
        asyncio.run(_serve(registry, *listen))
        return
    try:
        found = collector.look()
    except StoreError:
        say(rendered(unreachable()).rstrip("\n"))
        raise
    say(rendered(found).rstrip("\n"))


async def _serve(registry: CollectorRegistry, host: str, port: int) -> None:
    from headrace.worker.process import on_signals

    stop = asyncio.Event()
    on_signals(stop.set)
    server = _started(registry, host, port)
    try:
        shown = f"[{host}]" if ":" in host else host
        logging.getLogger("headrace.metrics").info("serving http://%s:%d/metrics", shown, server.server_port)
        await stop.wait()
    finally:
        server.shutdown()
        server.server_close()


def _started(registry: CollectorRegistry, host: str, port: int) -> WSGIServer:
    from prometheus_client import start_http_server

    from headrace.errors import ConfigError

    try:
        return start_http_server(port, host, registry)[0]
    except (OSError, UnicodeError) as error:  # the latter of a name that can be none
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"--listen is {host!r} and port {port}, which cannot be served: {why}") from None
