"""Checked by mypy in test_typing.py: each line marked `error:` must be one, and no other line may be (B125)."""

from datetime import timedelta

from headrace import Fail, Fixed, Headrace, Job, Pending, PollTask, Retry, Task, current_job

app = Headrace("memory://")


@app.task
def add(left: int, right: int = 2) -> int:
    return left + right


@app.task(queue="mail", unique="mail-{order_id}", retry=3, timeout=timedelta(seconds=5))
async def mail(order_id: int, note: str = "") -> str:
    current_job()
    return f"{order_id}{note}"


async def caller() -> None:
    good: Job = await mail.aenqueue(17, note="x")
    await mail.using(run_after=60, queue="slow").aenqueue(order_id=17)
    text: str = await mail(17)
    print(good.duplicate, text)

    await mail.aenqueue("17")  # error: arg-type
    await mail.aenqueue()  # error: call-arg
    await mail.aenqueue(17, nota="x")  # error: call-arg
    await mail.using(run_after=60).aenqueue("17")  # error: arg-type
    number: int = await mail(17)  # error: assignment
    print(number)


by_kind = Retry(on={ValueError: Fail, (OSError, KeyError): Fixed(1)})
total: int = add(1, 2)
job: Job = add.enqueue(1)
add.using(priority=5).enqueue(1, right=3)
add.enqueue_many([{"left": 1}, {"left": 2}], spread_over=60)
add.enqueue_many([(1, 2)])
task: Task[..., int] = add

add.enqueue("1")  # error: arg-type
add.enqueue(1, 2, 3)  # error: call-arg
add.enqueue(wrong=1)  # error: call-arg
add.using(priority="high")  # error: arg-type
add.using(colour="red")  # error: call-arg
add.using(priority=1).enqueue("1")  # error: arg-type
add("1")  # error: arg-type
add.call("1")  # error: arg-type
add.queue = "other"  # error: misc
wrong: str = add(1)  # error: assignment


@app.poll(every="1s x5, 30s", give_up_after="3m", unique="order-{order_id}")
async def sync(order_id: int) -> str | Pending:
    return Pending("not paid", after=5)


@sync.pre_check
def known(order_id: int) -> str | None:
    return None


@sync.on_final(retry=3)
async def final(order_id: int, result: str) -> None: ...


@sync.on_timeout
def in_vain(order_id: int) -> None: ...


poll: PollTask[..., object] = sync
sync.enqueue(17)
sync.using(queue="slow").enqueue(order_id=17)
final.enqueue(17, "paid")
in_vain(17)
maybe: str | None = known(17)

sync.enqueue("17")  # error: arg-type
final.enqueue(17)  # error: call-arg
in_vain("17")  # error: arg-type
app.poll(give_up_after=5)  # error: call-arg
app.poll(every=5)  # error: arg-type
