from __future__ import annotations

from taskveil.client.wire import ProblemDocument


def test_problem_documents_say_what_they_can() -> None:
    problem = ProblemDocument(status=403, title="Forbidden", detail="release withdrawn")
    assert ProblemDocument.from_json(problem.to_json(), status=403) == problem
    assert str(problem) == "Forbidden: release withdrawn"
    for useless in (b"", b"<html>", b"[1]", b'{"title": 5}'):
        assert str(ProblemDocument.from_json(useless, status=418)) == "status 418"
