"""Webhooks: told to a receiver, signed, until it answers as agreed; and checked where they are received."""
