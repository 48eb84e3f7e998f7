"""The shop: what you would write yourself."""
