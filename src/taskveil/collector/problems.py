"""All problems that a request can have, in one table. The answer is always an RFC 9457 problem document."""

from __future__ import annotations

from enum import Enum

from taskveil.client.wire import ProblemDocument


class ProblemType(Enum):
    """All problems. The name, in lower case with hyphens, is the last part of the document's `type`."""

    NO_REPORTS = (400, "The body holds no reports")
    BAD_REQUEST = (400, "The request cannot be read")
    TOKEN_MISSING = (401, "A token is needed")
    TOKEN_UNKNOWN = (401, "The token is not known")
    TOKEN_EXPIRED = (401, "The token has expired")
    TOKEN_WRONG_SCOPE = (403, "The token does not allow this")
    TOKEN_OTHER_RELEASE = (403, "The token is for another release")
    NOT_FOUND = (404, "There is nothing at this address")
    RELEASE_UNKNOWN = (404, "The release is not known here")
    ROUND_UNKNOWN = (404, "The release has no such round")
    ROUND_NOT_PLANNED = (404, "The release does not plan this round")
    METHOD_NOT_ALLOWED = (405, "The method is not allowed here")
    TOO_SLOW = (408, "The request took too long to arrive")
    RELEASE_CLOSED = (409, "The release takes no reports")
    ROUND_CLOSED = (409, "The round takes no reports")
    ROUND_OPEN = (409, "The round still takes reports")
    TOO_FEW = (409, "There are too few reports for an estimate")
    TOO_LARGE = (413, "The body is too large")
    WRONG_TYPE = (415, "The type of the body is not supported")
    INVALID = (422, "A parameter is wrong")
    TOO_MANY = (429, "Too many requests")
    FAULT = (500, "The collector failed")
    BUSY = (503, "The collector is busy")
    UNAVAILABLE = (503, "The database does not answer")
    STOPPING = (503, "The collector is stopping")

    def __init__(self, status: int, title: str) -> None:
        self.status, self.title = status, title

    def document(self, detail: str = "") -> ProblemDocument:
        """The document of this problem. The detail must not repeat what was sent."""
        return ProblemDocument(
            status=self.status,
            title=self.title,
            detail=detail,
            type=f"urn:taskveil:problem:{self.name.lower().replace('_', '-')}",
        )


class ProblemError(Exception):
    """Raised anywhere in a request. The answer is the problem's document."""

    def __init__(self, problem: ProblemType, detail: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(problem.title)
        self.problem = problem
        self.detail = detail
        self.retry_after = retry_after
        """Seconds until the same request may succeed."""
