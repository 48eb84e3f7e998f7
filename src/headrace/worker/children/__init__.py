"""Child processes that run one job at a time, and can be killed."""

from __future__ import annotations


class NoChildError(Exception):
    """There is no child process to be had."""
