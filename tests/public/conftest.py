"""An app on a memory store that can be watched."""

import pytest

from headrace import Headrace
from tests.public.drivers import WatchedDriver


@pytest.fixture
def driver() -> WatchedDriver:
    return WatchedDriver()


@pytest.fixture
def app(driver: WatchedDriver) -> Headrace:
    app = Headrace("memory://")
    app.driver = driver
    return app
