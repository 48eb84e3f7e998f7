"""What becomes of a request, decided from what is known of it: no clock, no store, no socket."""

from __future__ import annotations

from headrace.core.durations import micros
from headrace.core.once_records import EndOnce, OnceClaim, OnceTaken
from headrace.holding import Holding
from headrace.http import answers
from headrace.http.answers import Answer, Refused, Stored
from headrace.http.head import KEY_HEADER, RequestHead, fingerprint, record_key
from headrace.http.header import BadKey, parse
from headrace.http.recording import Recording
from headrace.http.settings import Settings

SCOPE = "http"
LONGEST_RETRY_S = 5  # most handlers end long before their lease does
_SECOND_US = 1_000_000


class Rules:
    """The settings, as decisions."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.methods = settings.all_methods
        self.scope = f"{SCOPE}:{settings.name}" if settings.name else SCOPE
        self.lease_us = micros(settings.lease)
        self._keep_us = micros(settings.lifetime)
        self._unstored = settings.all_unstored
        self._headers = settings.all_headers

    def key_of(self, head: RequestHead) -> str | None:
        """The client's key, None where the request passes through.

        Raises:
            Refused: it is malformed, or missing where one is required.
        """
        try:
            key = parse(head.values(KEY_HEADER), strict=self.settings.strict)
        except BadKey as error:
            raise Refused(answers.bad_key(str(error))) from None
        if key is None and self._requires(head):
            raise Refused(answers.missing())
        return key

    def _requires(self, head: RequestHead) -> bool:
        required = self.settings.required
        return required if isinstance(required, bool) else bool(required(head))

    def check_length(self, length: int) -> None:
        """Refuse a body that is too large.

        Raises:
            Refused: it is.
        """
        if length > self.settings.max_request:
            raise Refused(answers.too_large(self.settings.max_request))

    def claim(self, head: RequestHead, key: str, body: bytes, owner: str) -> OnceClaim:
        """What is asked of the store."""
        return OnceClaim(
            self.scope,
            record_key(self.settings.principal(head), key),
            fingerprint(head.method, head.path, head.query, body),
            owner,
            lease_us=self.lease_us,
        )

    def answer(self, taken: OnceTaken) -> Answer | None:
        """The answer to a request that is not run; None: run it."""
        match taken.status:
            case "mine":
                return None
            case "held":
                # one who has waited for the holder's transaction counts from before it began, so that more is left
                seconds = -(-min(taken.lease_us, self.lease_us) // _SECOND_US)
                return answers.in_progress(max(1, min(seconds, LONGEST_RETRY_S)))
            case "other":
                return answers.other_request()
        return answers.replay(taken.result) or answers.not_replayable()

    def recording(self) -> Recording:
        """For the handler's answer."""
        return Recording(self._headers, self.settings.max_response)

    def conclude(self, recording: Recording) -> Stored | None:
        """What is kept of a handler that has ended; None: its key is given back.

        The status decides. A handler that has sent none, since an exception has left it, counts as 500 (B155).
        """
        status = 500 if recording.status is None else recording.status
        if status in self._unstored or (status >= 500 and self.settings.replay_errors == "never"):
            return None
        return recording.stored()

    def end(self, holding: Holding, stored: Stored | None) -> EndOnce:
        """Store the answer, or give the key back."""
        if stored is None:
            return holding.end("free", None, self._keep_us)
        return holding.end("done", answers.encode(stored), self._keep_us)
