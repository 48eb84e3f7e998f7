"""Orders through psycopg's AsyncConnection, for the peers that have it."""

import orders
import peerlib as lib
import psycopg


class Shop(orders.Shop):
    """The job is the peer's part."""

    async def open(self) -> None:
        """Connect."""
        self.connection = await psycopg.AsyncConnection.connect(lib.POSTGRES_URL)
        await self.connection.execute(orders.TABLE)
        await self.connection.commit()

    async def order(self, number: int) -> None:
        """Store one order."""
        await self.connection.execute("insert into orders values (%s, '9.90')", (number,))

    async def commit(self) -> None:
        """End the transaction."""
        await self.connection.commit()

    async def close(self) -> None:
        """Disconnect."""
        await self.connection.close()


def measured(shop: orders.Shop, count: str, way: str) -> dict[str, float]:
    """The answer of the command `orders`."""
    return {"n": int(count), "seconds": lib.run_loop(orders.asell(shop, int(count), way))}
