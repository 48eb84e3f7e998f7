"""How the schema is looked at here. The driver holds the write lock meanwhile, so there is nothing else to guard it."""

from __future__ import annotations

from headrace.errors import StoreMisconfigured
from headrace.stores.plan import Plan, Statement
from headrace.stores.schema import Facts


def look() -> Plan[Facts]:
    """What the file says.

    Raises:
        StoreMisconfigured: another program has tables of our names.
    """
    there = yield Statement("moment.is_there")
    if there[0][0]:
        facts = {name: int(value) for name, value in (yield Statement("moment.version"))}
        if "schema" in facts:
            return Facts(facts["schema"], facts.get("oldest", 0))
    for (name,) in (yield Statement("moment.taken")):
        raise StoreMisconfigured(
            f"the file has a {name} that is not of headrace: choose another name= for the app, such as "
            'Headrace(url, name="jobs"), or another file'
        )
    return Facts()
