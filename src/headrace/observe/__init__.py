"""Alerts: rules that say when something is wrong, and sinks that say it to people."""

from headrace.observe.alerts import Alerts
from headrace.observe.mail import MailSink
from headrace.observe.messages import Alert, NotTaken, Sink
from headrace.observe.rules import CircuitOpened, FailedGrowth, OldestWaiting, Rule, TaskHeld, WorkerLost
from headrace.observe.sinks import LogSink, SlackSink, WebhookSink

__all__ = [
    "Alert",
    "Alerts",
    "CircuitOpened",
    "FailedGrowth",
    "LogSink",
    "MailSink",
    "NotTaken",
    "OldestWaiting",
    "Rule",
    "Sink",
    "SlackSink",
    "TaskHeld",
    "WebhookSink",
    "WorkerLost",
]
