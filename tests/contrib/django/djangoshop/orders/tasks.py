"""Tasks of headrace's own, and of Django's framework."""

from djangoshop.orders.models import Mail
from headrace.contrib.django import app

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task


@app.task(queue="mail", unique="confirm-{number}", retry=1)
def confirm(number: int) -> None:
    """A plain function with the ORM."""
    Mail.objects.create(number=number, by="plain")


@app.task(retry=1)
async def aconfirm(number: int) -> None:
    """A coroutine with the ORM."""
    await Mail.objects.acreate(number=number, by="async")


@app.task(retry=1)
def fail(text: str) -> None:
    """Never succeeds."""
    raise ValueError(text)


@app.task(retry=1, run_in="process")
def apart(number: int) -> None:
    """In a child process, where models are imported only after Django's set-up."""
    Mail.objects.create(number=number, by="process")


@app.on("OrderCreated")
def on_order(payload: dict[str, int]) -> None:
    """What follows from an event."""
    Mail.objects.create(number=payload["number"], by="event")


@task(queue_name="mail")
def notify(number, *, by="framework"):
    """A task of Django's framework."""
    Mail.objects.create(number=number, by=by)
    return number


@task
async def anotify(number):
    """An asynchronous one."""
    await Mail.objects.acreate(number=number, by="aframework")


@task(takes_context=True)
def counted(context, number):
    """Notes its attempt, and fails on the first."""
    Mail.objects.create(number=number, by=f"attempt {context.attempt}")
    if context.attempt == 1:
        raise LookupError("the first attempt fails")


@task
def broken(number):
    """Never succeeds."""
    raise Mail.DoesNotExist(f"no mail {number}")
