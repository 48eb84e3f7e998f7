"""Translate operations into plans. Text and data only: no connection, no clock, no retries, no logging."""
