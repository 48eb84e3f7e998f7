"""The job in the log lines of its own handler."""

from __future__ import annotations

import logging

from headrace.context import running_job


class JobLogFilter(logging.Filter):
    """Gives each record made inside a job its `job_id`, `task`, `queue` and `attempt`, and its logged `arguments`.

    Add it to your handlers: `handler.addFilter(JobLogFilter())`. It lets every record pass, and leaves those alone
    that name their job already, as the worker's own do. `headrace work` has it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Always True."""
        job = running_job()
        if job is not None and not hasattr(record, "job_id"):
            record.job_id, record.task, record.queue, record.attempt = job.id, job.task, job.queue, job.attempt
            if job.logged:
                record.arguments = job.logged
        return True
