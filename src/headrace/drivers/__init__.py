"""The only rooms with sockets and files: one file per client library. No job rules, no states, no SQL text."""
