"""Failed jobs: hooks that run when a job has failed, and what operators do about them: search, edit, retry, replay."""
