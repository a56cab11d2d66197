"""The menu of all pages: what there is, by group, in the order in which it is shown. A new page is one line here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One page of the menu. A template says `{% set here = "name" %}` to be the current one; its icon has that name."""

    name: str
    words: str
    path: str
    scope: str = ""  # shown only to those who have it


@dataclass(frozen=True, slots=True)
class Group:
    """Entries that belong together; the first group has no heading."""

    words: str
    entries: tuple[Entry, ...]


MENU = (
    Group("", (Entry("dashboard", "Dashboard", "/"),)),
    Group(
        "Media",
        (
            Entry("videos", "Videos", "/videos"),
            Entry("libraries", "Libraries", "/libraries"),
            Entry("projects", "Projects", "/projects"),
            Entry("search", "Search", "/search"),
            Entry("bots", "Bots", "/bots"),
            Entry("trash", "Trash", "/trash"),
        ),
    ),
    Group(
        "Operation",
        (
            Entry("jobs", "Jobs", "/jobs"),
            Entry("dead", "Dead letter", "/dead"),
            Entry("workers", "Workers", "/workers"),
            Entry("pools", "Pools", "/pools"),
            Entry("storage", "Storage", "/storage"),
            Entry("settings", "Settings", "/settings", "admin"),
            Entry("access", "Access", "/access", "admin"),
            Entry("audit", "Audit log", "/audit", "admin"),
            Entry("docs", "API", "/docs"),
        ),
    ),
)
