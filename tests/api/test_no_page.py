"""An address at which there is nothing."""

from __future__ import annotations

import pytest

from tests.api.serving import Served


@pytest.mark.pages
async def test_a_person_reads_a_page_and_a_program_gets_a_problem(served: Served) -> None:
    page = await served.client.get("/nowhere", headers={"accept": "text/html"})
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "There is no page at this address" in page.text
    problem = await served.client.get("/nowhere")
    assert (problem.status_code, problem.headers["content-type"]) == (404, "application/problem+json")
    assert problem.json()["code"] == "not_found"
