"""What a browser may ask for."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from djangoshop.orders import tasks
from djangoshop.orders.models import Mail, Order
from headrace.contrib.django import app


def up(request: HttpRequest) -> HttpResponse:
    """The server answers."""
    return HttpResponse("up")


@csrf_exempt
def order(request: HttpRequest) -> HttpResponse:
    """Store an order and all that follows, in one transaction; `then=fail` lets it fail in the end."""
    number, then = int(request.GET["number"]), request.GET.get("then")
    with transaction.atomic():
        Order.objects.create(number=number)
        tasks.confirm.using(transaction="default").enqueue(number)
        tasks.aconfirm.enqueue(number)
        result = tasks.notify.enqueue(number)
        app.outbox.add("default", "OrderCreated", aggregate=("Order", number), payload={"number": number})
        if then == "fail":
            raise RuntimeError("the request fails in the end")
    return JsonResponse({"result": result.id})


def show(request: HttpRequest, number: int) -> HttpResponse:
    """Who has sent mail for an order."""
    mails = Mail.objects.filter(number=number).values_list("by", flat=True)
    return JsonResponse({"orders": Order.objects.filter(number=number).count(), "mails": sorted(mails)})


def result(request: HttpRequest, id: str) -> HttpResponse:
    """What has become of a task."""
    found = tasks.notify.get_result(id)
    return JsonResponse({"status": str(found.status), "attempts": found.attempts})
