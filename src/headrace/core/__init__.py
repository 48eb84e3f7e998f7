"""Decides. Pure rules over numbers, strings and frozen records; time and randomness are handed in."""
