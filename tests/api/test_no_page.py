"""Addresses that lead nowhere, or not by this method: a page for a person, a problem for a program."""

from __future__ import annotations

import httpx
import pytest

from tests.api.serving import Served

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
PAGE, PROBLEM = "text/html; charset=utf-8", "application/problem+json"


def kind(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.headers["content-type"]


@pytest.mark.spec("K4")
@pytest.mark.pages
async def test_a_person_reads_a_page_and_a_program_gets_a_problem(served: Served) -> None:
    page = await served.client.get("/nowhere", headers=BROWSER)
    assert kind(page) == (404, PAGE)
    assert "There is no page at this address" in page.text
    assert '<a href="/">Back to the dashboard</a>' in page.text
    problem = await served.client.get("/nowhere")
    assert kind(problem) == (404, PROBLEM)
    assert problem.json()["code"] == "not_found"


@pytest.mark.spec("K4")
@pytest.mark.pages
@pytest.mark.parametrize("path", ["/api/nowhere", "/v1/nowhere", "/api/jobs/99"])
async def test_the_api_answers_with_problems_in_a_browser_too(served: Served, path: str) -> None:
    assert kind(await served.client.get(path, headers=BROWSER)) == (404, PROBLEM)


@pytest.mark.spec("K4")
@pytest.mark.pages
async def test_an_address_of_a_form_is_a_page_that_says_so(served: Served) -> None:
    page = await served.client.get("/jobs/1/retry", headers=BROWSER)
    assert (*kind(page), page.headers["allow"]) == (405, PAGE, "POST")
    assert "This address takes what a form sends" in page.text
    assert kind(await served.client.get("/jobs/1/retry")) == (405, PROBLEM)


@pytest.mark.spec("K4")
@pytest.mark.pages
@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/static/mediamill.css", "GET, HEAD"),
        ("DELETE", "/", "GET"),
        ("PATCH", "/api/jobs", "GET, POST"),
    ],
)
async def test_a_method_that_an_address_does_not_take_is_refused_with_those_that_it_takes(
    served: Served, method: str, path: str, allowed: str
) -> None:
    answer = await served.client.request(method, path)
    assert (*kind(answer), answer.headers["allow"]) == (405, PROBLEM, allowed)


@pytest.mark.spec("K4")
@pytest.mark.pages
async def test_what_goes_wrong_on_our_side_is_a_page_for_a_person(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = next(route for route in served.app.routes if getattr(route, "path", "") == "/docs")

    async def fail(*_: object) -> None:
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr(broken, "app", fail)
    page = await served.client.get("/docs", headers=BROWSER)
    assert kind(page) == (500, PAGE)
    assert "Something went wrong on our side" in page.text
    assert "foresaw" not in page.text
    assert kind(await served.client.get("/docs")) == (500, PROBLEM)


@pytest.mark.spec("K4")
async def test_a_browser_that_comes_by_a_foreign_name_reads_a_page(served: Served) -> None:
    page = await served.client.get("/", headers={**BROWSER, "host": "evil.example"})
    assert kind(page) == (421, PAGE)
    assert "add this name to MEDIAMILL_HOSTS" in page.text
    assert kind(await served.client.get("/", headers={"host": "evil.example"})) == (421, PROBLEM)
