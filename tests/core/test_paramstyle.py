"""Parameters of statements, for each client library."""

from headrace.drivers.paramstyle import names, pyformat, spread

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


def test_lists_are_written_out() -> None:
    text, params = spread("select ':a' from t where id in :ids and n = :n and m = :n", {"ids": [b"x", b"y"], "n": 5})
    assert text == "select ':a' from t where id in (:ids_0, :ids_1) and n = :n and m = :n"
    assert params == {"ids_0": b"x", "ids_1": b"y", "n": 5}


def test_rows_are_written_out() -> None:
    text, params = spread("insert into t values :rows on duplicate key update a = t.a", {}, [(1, None), (2, "%")])
    assert text == "insert into t values (:row_0_0, :row_0_1), (:row_1_0, :row_1_1) on duplicate key update a = t.a"
    assert params == {"row_0_0": 1, "row_0_1": None, "row_1_0": 2, "row_1_1": "%"}
