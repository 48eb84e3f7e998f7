"""The tables of headrace, version by version."""
