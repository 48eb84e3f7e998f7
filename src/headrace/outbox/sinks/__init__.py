"""Destinations of events. `jobs` serves the subscribers; the others are given routes."""
