"""Everything that can be wrong with a request: one table, one kind of answer (RFC 9457 problem documents)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from taskveil.client.wire import ProblemDocument


@dataclass(frozen=True)
class Kind:
    """A problem's status, and its title for people."""

    status: int
    title: str


class Problem(Enum):
    """All of them. The name, in lower case with hyphens, is the last part of the problem's `type`."""

    NO_REPORTS = Kind(400, "The body holds no reports")
    BAD_REQUEST = Kind(400, "The request cannot be read")
    TOKEN_MISSING = Kind(401, "A token is needed")
    TOKEN_UNKNOWN = Kind(401, "The token is not known")
    TOKEN_EXPIRED = Kind(401, "The token has expired")
    TOKEN_WRONG_SCOPE = Kind(403, "The token does not allow this")
    TOKEN_OTHER_RELEASE = Kind(403, "The token is for another release")
    NOT_FOUND = Kind(404, "There is nothing here")
    RELEASE_UNKNOWN = Kind(404, "The release is not known here")
    ROUND_UNKNOWN = Kind(404, "The release has no such round")
    METHOD_NOT_ALLOWED = Kind(405, "The method is not allowed here")
    TOO_SLOW = Kind(408, "The request took too long to arrive")
    RELEASE_CLOSED = Kind(409, "The release takes no reports")
    ROUND_CLOSED = Kind(409, "The round takes no reports")
    ROUND_OPEN = Kind(409, "The round still takes reports")
    TOO_FEW = Kind(409, "There are too few reports to say anything")
    TOO_LARGE = Kind(413, "The body is too large")
    WRONG_TYPE = Kind(415, "The body is of a type that is not taken")
    INVALID = Kind(422, "A parameter is not as it should be")
    TOO_MANY = Kind(429, "Too many requests")
    FAULT = Kind(500, "The collector failed")
    BUSY = Kind(503, "The collector is busy")
    UNAVAILABLE = Kind(503, "The database does not answer")
    STOPPING = Kind(503, "The collector is stopping")

    def document(self, detail: str = "") -> ProblemDocument:
        """As it is sent. A detail never quotes what was sent."""
        return ProblemDocument(
            status=self.value.status,
            title=self.value.title,
            detail=detail,
            type=f"urn:taskveil:problem:{self.name.lower().replace('_', '-')}",
        )


class ProblemError(Exception):
    """Raised anywhere below a request, and answered by the problem's document."""

    def __init__(self, problem: Problem, detail: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(problem.value.title)
        self.problem = problem
        self.detail = detail
        self.retry_after = retry_after
        """Seconds after which the same request may succeed."""
