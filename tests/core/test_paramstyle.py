"""Parameters of statements, for each client library."""

from headrace.drivers.paramstyle import names, pyformat

STATEMENT = """
select id::text, 'it''s 12:30 :no', "odd:name" -- not :this
from t where a = :first and b % 2 = 0 and c like '5%' /* :nor this */ and d = :second::bigint and e = :first
"""
PYFORMAT = """
select id::text, 'it''s 12:30 :no', "odd:name" -- not :this
from t where a = %(first)s and b %% 2 = 0 and c like '5%%' /* :nor this */ and d = %(second)s::bigint and e = %(first)s
"""


def test_names_become_placeholders_and_all_else_stays() -> None:
    assert pyformat(STATEMENT) == PYFORMAT
    assert names(STATEMENT) == ["first", "second", "first"]
