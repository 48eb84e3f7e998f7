"""Code outside of jobs that must take effect once."""
