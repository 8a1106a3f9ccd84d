"""Monitor windows, replies, summaries and steps: figures, alerts and exports."""

from jiyi.monitor.drift import Drift, Step, find_drift
from jiyi.monitor.export import otel_metrics, prometheus_text, traced
from jiyi.monitor.figures import Alert, Gauges, Limits, Spread, Thresholds, Usage
from jiyi.monitor.hits import Hit, Hits, find_hits
from jiyi.monitor.monitor import ContextMonitor

__all__ = [
    "Alert",
    "ContextMonitor",
    "Drift",
    "Gauges",
    "Hit",
    "Hits",
    "Limits",
    "Spread",
    "Step",
    "Thresholds",
    "Usage",
    "find_drift",
    "find_hits",
    "otel_metrics",
    "prometheus_text",
    "traced",
]
