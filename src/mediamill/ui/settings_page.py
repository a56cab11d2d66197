"""The page of settings: what holds now, where each comes from, and how to change it."""

from __future__ import annotations

from itertools import groupby

from fastapi import APIRouter
from starlette.responses import HTMLResponse

from mediamill.conversations import configuration
from mediamill.db.connection import Database
from mediamill.settings import Settings
from mediamill.settings_facts import explain_settings
from mediamill.ui.rendering import Renderer


def add_settings_page(router: APIRouter, renderer: Renderer, database: Database, settings: Settings) -> None:
    """Its route."""

    async def show(q: str = "", changed: bool = False) -> HTMLResponse:
        """Every setting, or those that are asked for."""
        words = q.strip().lower()
        facts = [
            fact
            for fact in explain_settings(settings)
            if (not changed or fact.source != "default")
            and all(word in f"{fact.variable} {fact.description}".lower() for word in words.split())
        ]
        async with database.connection() as connection:
            quota = await configuration.quota_gb(connection)
        sections = [(name, list(found)) for name, found in groupby(facts, lambda fact: fact.section)]
        return renderer.page(
            "settings/all.html",
            sections=sections,
            quota_gb=quota,
            is_default=quota == configuration.DEFAULT_QUOTA_GB,
            q=q.strip()[:200],
            changed=changed,
        )

    router.get("/settings")(show)
