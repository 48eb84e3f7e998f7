-- What our own connections are set to; a caller's is never touched.

-- name: isolation
-- The default, REPEATABLE READ, locks gaps: a claim would hold up those who enqueue.
set session transaction isolation level read committed;

-- name: settings
-- What does not fit is an error, and nobody waits for a lock longer than for the network. On MariaDB, which alone reads
-- the comment, a process that is frozen within a transaction loses it, and its locks.
set session sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO', session innodb_lock_wait_timeout = :lock_wait
    /*M!100300 , session idle_transaction_timeout = 10 */;
