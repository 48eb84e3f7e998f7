"""What is timed in transactions of the caller's: orders with their jobs, and events with their relay."""

from __future__ import annotations

import statistics

from bench.subject import Answer, Failed, Subject, summary

WAYS = ("row", "both", "after")
LEAST_LAGS = 5
LAG_GAP_S = 0.3  # widest pause between two events: a relay with nothing to do looks every 0.15 s
FEW = 100  # aggregates, where events have to be kept in order


def transaction(subject: Subject) -> Answer | None:
    """Orders of one producer: the row alone, with its job in the same transaction, with a job after its commit."""
    if not subject.variant.joins:
        return None
    return {library: _orders(subject, library) for library in subject.variant.joins}


def _orders(subject: Subject, library: str) -> Answer:
    def rate(count: int, way: str) -> float:
        subject.fresh()
        measured = count / float(subject.call("orders", count, way, library)["seconds"])
        if subject.variant.ours and way != "row":
            found = subject.call("remaining")["jobs"]
            if found != count + 1:
                raise Failed(f"{count + 1} orders were committed, {found} jobs are there")
        return measured

    count = subject.scaled(rate(300, "both"), 200, 100_000)
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(subject.settings.repeat):
        for way in WAYS:
            rates[way].append(round(rate(count, way), 1))
    return {way: statistics.median(rates[way]) for way in WAYS} | {"n": count, "rates": rates}


def relay(subject: Subject) -> Answer | None:
    """Events into jobs: the rate of one relay with many waiting, and the lag of a few while it has nothing to do."""
    if not subject.variant.writer:
        return None
    probe = _carried(subject, 1_000, 1_000)
    count = subject.scaled(1_000 / probe, 1_000, 100_000)
    many, few = [], []
    for _ in range(subject.settings.repeat):
        many.append(count / _carried(subject, count, count))
        few.append(count / _carried(subject, count, min(FEW, count)))
    answer = summary(many, count) | {"few": summary(few, count)}
    writer = subject.variant.writer
    writers = [writer, *(["session"] if "session" in subject.variant.joins else []), f"{writer}/add"]
    return answer | {"lag": {writer: _lag(subject, writer) for writer in writers}}


def _carried(subject: Subject, count: int, aggregates: int) -> float:
    """Seconds in which a relay carries out so many events, of which none may be lost or make two jobs."""
    subject.fresh()
    subject.call("events", "write", count, aggregates, subject.variant.writer)
    answer = subject.call("events", "relay")
    found = subject.call("remaining")["jobs"]
    if not answer["published"] == found == count:
        raise Failed(f"{count} events were written, {answer['published']} published, {found} jobs are there")
    return float(answer["seconds"])


def _lag(subject: Subject, writer: str) -> Answer:
    samples = max(LEAST_LAGS, subject.settings.samples // 5)
    subject.fresh()
    with subject.worker("default", "events", "serve"):
        answer = subject.call("events", "lag", samples, LAG_GAP_S, writer)
    seconds = sorted(answer["samples"])
    if len(seconds) != samples:
        raise Failed(f"{samples} events were written, {len(seconds)} are there")
    p50, p99, most = (1_000 * seconds[place] for place in (len(seconds) // 2, int(len(seconds) * 0.99), -1))
    return {"samples": samples, "p50_ms": p50, "p99_ms": p99, "max_ms": most}
