"""Metrics as Prometheus gets them, parsed by its own library."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from urllib.request import ProxyHandler, Request, build_opener

from prometheus_client import CollectorRegistry, Metric, generate_latest, start_http_server
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from headrace import Headrace
from headrace.observe.metrics import StoreCollector

OPEN = "application/openmetrics-text"

Samples = dict[tuple[str, ...], float]  # name and values of the labels by their names' order -> number


def parsed(text: str) -> Samples:
    """Each series once."""
    return samples_of(text_string_to_metric_families(text))


def samples_of(families: Iterable[Metric]) -> Samples:
    """The same of families."""
    found: Samples = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, *(value for _, value in sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


def fetched(url: str) -> Samples:
    """What a server answers."""
    with build_opener(ProxyHandler({})).open(url, timeout=30) as answer:
        assert (answer.status, answer.headers.get_content_type()) == (200, "text/plain")
        return parsed(answer.read().decode())


def fetched_openly(url: str) -> Samples:
    """The same as OpenMetrics, which is what Prometheus asks for first."""
    request = Request(url, headers={"Accept": f"{OPEN};version=1.0.0,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"})
    with build_opener(ProxyHandler({})).open(request, timeout=30) as answer:
        assert (answer.status, answer.headers.get_content_type()) == (200, OPEN)
        return samples_of(openmetrics.text_string_to_metric_families(answer.read().decode()))


@contextmanager
def served(app: Headrace) -> Iterator[str]:
    """A server of the library's with the metrics of `app`, by its URL."""
    registry = CollectorRegistry()
    registry.register(StoreCollector(app))
    server, thread = start_http_server(0, "127.0.0.1", registry)
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def scraped(app: Headrace) -> Samples:
    """The same without a server."""
    return parsed(generate_latest(StoreCollector(app)).decode())
