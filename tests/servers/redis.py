"""A Redis or Valkey that tests may break."""

from headrace.testing.servers import redis
from headrace.testing.servers.redis import find_redis_binary
from tests.servers.base import Server

__all__ = ["RedisServer", "find_redis_binary"]


class RedisServer(Server, redis.RedisServer):
    """One Redis or Valkey process."""
