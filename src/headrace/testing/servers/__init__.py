"""Private throwaway servers: a process of one's own, a free loopback port, a directory that is thrown away.

Tests may kill and restart them, so none of them is ever somebody's real server. Each module needs the client library of
its own server, and finds the server's programs on the machine or in a wheel.
"""
