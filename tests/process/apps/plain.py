"""The app of a worker process: `headrace work --app tests.process.apps.plain:app`."""

from tests.process.apps.faulty import spoil
from tests.process.apps.scene import Scene
from tests.process.apps.tasks import app_of

scene = Scene.of_environment()
app = app_of(scene)
if scene.settings.faults:
    spoil(scene)
