"""Counters and histograms: cumulative buckets, and no more series than there may be."""

from __future__ import annotations

from gateway.sight.names import Name
from gateway.sight.tally import Counter, Histogram

CALLS = Name("calls_total", "counter", "Calls.", ("dialect",))
SECONDS = Name("seconds", "histogram", "Seconds.", (), (0.1, 1.0))


def test_a_bucket_counts_all_that_is_not_above_its_bound() -> None:
    seconds = Histogram(SECONDS)
    for value in (0.05, 0.1, 0.5, 7.0):
        seconds.observe(value)
    assert list(seconds.samples()) == [
        ("_bucket", ("0.1",), 2.0),
        ("_bucket", ("1.0",), 3.0),
        ("_bucket", ("+Inf",), 4.0),
        ("_sum", (), 7.65),
        ("_count", (), 4.0),
    ]


def test_a_counter_without_labels_is_there_before_it_counted_anything() -> None:
    assert list(Counter(Name("answered_total", "counter", "Answers.")).samples()) == [("", (), 0.0)]


def test_what_would_be_a_series_too_many_is_other() -> None:
    calls = Counter(CALLS)
    seconds = Histogram(Name("seconds", "histogram", "Seconds.", ("backend",), (1.0,)))
    for number in range(1_500):
        calls.add((f"dialect-{number}",))
        seconds.observe(0.5, (f"backend-{number}",))
    samples = {labels: value for _, labels, value in calls.samples()}
    assert len(samples) == 1_001
    assert samples["other",] == 500
    assert ("_count", ("other",), 500.0) in list(seconds.samples())
