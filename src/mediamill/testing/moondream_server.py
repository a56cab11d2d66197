"""A Moondream server on this machine."""

from __future__ import annotations

from mediamill.testing.model_server import ModelServer, Reply, Seen

CAPTION = "A red square on a white ground."


class MoondreamServer(ModelServer):
    """Its address, with or without `/v1`, is what MEDIAMILL_MOONDREAM_URL wants."""

    def answer(self, seen: Seen) -> Reply:
        """What the real one would say."""
        if seen.path != "/v1/caption":
            return Reply.json({"detail": f"no route {seen.path}"}, 404)
        return Reply.json({"caption": CAPTION, "request_id": "scripted"})
