"""Orders, and the jobs that follow them."""
