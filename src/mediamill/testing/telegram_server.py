"""A Bot API on this machine, with what tests need: people who write, files, faults on request, and all that was said.

Updates are kept until a higher offset is asked for, as Telegram does. `server.fault("getUpdates", told_error(500))`
scripts the next answers of one method (`file` is the download of files); after those it answers well again.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote

from mediamill.testing.model_server import Act, ModelServer, Reply, Seen, reply

ACCOUNT = 4_200_000_001
TOKEN = f"{ACCOUNT}:loopback-AAAAAAAAAAAAAAAAAAAAAAAAAAAA"
ANN = 7001
LARGEST_FILE_BYTES = 20 * 1024**2
PUSH_SECONDS = 10.0
PUSH_AGAIN_SECONDS = 0.05


class TelegramServer(ModelServer):
    """Its address is what MEDIAMILL_TELEGRAM_URL wants. Safe to use from any thread."""

    def __init__(self, token: str = TOKEN) -> None:
        self.token = token
        self.sent: list[dict[str, Any]] = []  # every message that bots sent, as it reads now
        self.edits: list[dict[str, Any]] = []
        self.actions: list[str] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.files: dict[str, bytes] = {}
        self.webhook: dict[str, Any] = {}
        self.waiting: list[dict[str, Any]] = []  # updates that nobody has confirmed
        self._faults: defaultdict[str, deque[Act]] = defaultdict(deque)
        self._messages, self._updates, self._albums = 100, 500_000_000, 13_000_000_000_000
        self._changed = threading.Condition()
        self._pusher = threading.Thread(target=self._push_forever, daemon=True)
        super().__init__()
        self._pusher.start()

    # --- people ---

    def say(self, text: str, *, user: int = ANN, **more: Any) -> int:
        """Somebody writes; the id of the message."""
        return self.write({"text": text, **more}, user=user)

    def send_photo(
        self,
        data: bytes,
        *,
        user: int = ANN,
        caption: str | None = None,
        album: str | None = None,
        **more: Any,
    ) -> int:
        """A photo, in two sizes; the large one is it."""
        large, small = self.put_file(data), self.put_file(b"small")
        sizes = [
            {"file_id": small, "file_unique_id": f"u{small}", "width": 90, "height": 60, "file_size": 5},
            {
                "file_id": large,
                "file_unique_id": f"u{large}",
                "width": 900,
                "height": 600,
                "file_size": len(data),
            },
        ]
        words = {"caption": caption} if caption is not None else {}
        group = {"media_group_id": album} if album is not None else {}
        return self.write({"photo": sizes, **words, **group, **more}, user=user)

    def send_album(self, images: Sequence[bytes], *, user: int = ANN, caption: str | None = None) -> str:
        """Several photos as one; its id."""
        album = self.new_album()
        for number, data in enumerate(images):
            self.send_photo(data, user=user, album=album, caption=caption if number == 0 else None)
        return album

    def send_file(
        self, kind: str, data: bytes, *, user: int = ANN, caption: str | None = None, **facts: Any
    ) -> int:
        """A voice note, video, document …, by Telegram's name for it."""
        file_id = self.put_file(data)
        file = {"file_id": file_id, "file_unique_id": f"u{file_id}", "file_size": len(data), **facts}
        return self.write({kind: file, **({"caption": caption} if caption is not None else {})}, user=user)

    def write(
        self,
        content: dict[str, Any],
        *,
        user: int = ANN,
        group: int | None = None,
        message_id: int | None = None,
        kind: str = "message",
    ) -> int:
        """A message with this content, as an update that waits."""
        with self._changed:
            self._messages += 1
            number = message_id or self._messages
            self._updates += 1
            who = {"id": user, "is_bot": False, "first_name": "Ann", "username": f"user{user}"}
            chat: dict[str, Any] = {"id": user, "type": "private", "first_name": "Ann"}
            if group is not None:
                chat = {"id": group, "type": "supergroup", "title": "Friends"}
            message = {"message_id": number, "date": int(time.time()), "chat": chat, "from": who, **content}
            self.waiting.append({"update_id": self._updates, kind: message})
            self._changed.notify_all()
        return number

    def new_album(self) -> str:
        """The id of a media group."""
        with self._changed:
            self._albums += 1
            return str(self._albums)

    def put_file(self, data: bytes) -> str:
        """A file that can be asked for; its id."""
        with self._changed:
            file_id = f"file{len(self.files)}"
            self.files[file_id] = data
            return file_id

    # --- what tests look at ---

    def texts(self, chat: int = ANN) -> list[str]:
        """What bots have said in a chat, as it reads now."""
        with self._changed:
            return [message["text"] for message in self.sent if message["chat_id"] == chat]

    def count(self, method: str) -> int:
        """How often a method was called."""
        with self._changed:
            return sum(name == method for name, _ in self.calls)

    def fault(self, method: str, *acts: Act) -> None:
        """The next calls of this method are answered like this."""
        self._faults[method].extend(acts)

    # --- the Bot API ---

    def next_act(self, seen: Seen) -> Act:
        """See ModelServer; the script is by method."""
        method = "file" if seen.path.startswith("/file/") else seen.path.rpartition("/")[2]
        if self._faults[method]:
            return self._faults[method].popleft()
        return lambda handler: handler.reply(self._answer_to(method, seen))

    def answer(self, seen: Seen) -> Reply:
        """See ModelServer."""
        return _error(404, f"Not Found: {seen.method}")

    def _answer_to(self, method: str, seen: Seen) -> Reply:
        if f"/bot{self.token}/" not in seen.path:
            return _error(401, "Unauthorized")
        if method == "file":
            return self._file(seen)
        asked = seen.json() if seen.body else {}
        with self._changed:
            self.calls.append((method, asked))
        answers: dict[str, Callable[[dict[str, Any]], Reply]] = {
            "getMe": self._get_me,
            "getUpdates": self._get_updates,
            "getFile": self._get_file,
            "sendMessage": self._send_message,
            "editMessageText": self._edit_message,
            "sendChatAction": self._send_action,
            "setWebhook": self._set_webhook,
            "deleteWebhook": self._set_webhook,
            "getWebhookInfo": lambda _: _ok({"url": self.webhook.get("url", ""), "pending_update_count": 0}),
        }
        return answers[method](asked) if method in answers else _error(404, "Not Found")

    def _get_me(self, _: dict[str, Any]) -> Reply:
        return _ok(
            {
                "id": int(self.token.split(":")[0]),
                "is_bot": True,
                "first_name": "Mill",
                "username": "mill_bot",
            }
        )

    def _get_updates(self, asked: dict[str, Any]) -> Reply:
        until = time.monotonic() + float(asked.get("timeout") or 0)
        with self._changed:
            if self.webhook.get("url"):
                return _error(409, "Conflict: can't use getUpdates method while webhook is active")
            offset = asked.get("offset")
            if offset is not None:
                self.waiting = [each for each in self.waiting if each["update_id"] >= offset]
            while not self.waiting and time.monotonic() < until and not self.closed.is_set():
                self._changed.wait(min(0.05, max(0.0, until - time.monotonic())))
            return _ok(self.waiting[: int(asked.get("limit") or 100)])

    def _get_file(self, asked: dict[str, Any]) -> Reply:
        data = self.files.get(asked["file_id"])
        if data is None:
            return _error(400, "Bad Request: invalid file_id")
        if len(data) > LARGEST_FILE_BYTES:
            return _error(400, "Bad Request: file is too big")
        return _ok({**asked, "file_size": len(data), "file_path": f"documents/{asked['file_id']}.bin"})

    def _file(self, seen: Seen) -> Reply:
        name = unquote(seen.path.rpartition("/")[2]).removesuffix(".bin")
        data = self.files.get(name)
        return Reply(data) if data is not None else _error(404, "Not Found")

    def _send_message(self, asked: dict[str, Any]) -> Reply:
        if not asked["text"].strip() or len(asked["text"].encode("utf-16-le")) > 2 * 4096:
            return _error(400, "Bad Request: message is too long")
        with self._changed:
            self._messages += 1
            message = {"message_id": self._messages, "chat_id": asked["chat_id"], "text": asked["text"]}
            self.sent.append(message)
        return _ok({**message, "date": int(time.time()), "chat": {"id": asked["chat_id"], "type": "private"}})

    def _edit_message(self, asked: dict[str, Any]) -> Reply:
        with self._changed:
            for message in self.sent:
                if message["message_id"] == asked["message_id"] and message["chat_id"] == asked["chat_id"]:
                    if message["text"] == asked["text"]:
                        return _error(400, "Bad Request: message is not modified")
                    message["text"] = asked["text"]
                    self.edits.append(asked)
                    return _ok(message)
        return _error(400, "Bad Request: message to edit not found")

    def _send_action(self, asked: dict[str, Any]) -> Reply:
        with self._changed:
            self.actions.append(asked["action"])
        return _ok(True)

    def _set_webhook(self, asked: dict[str, Any]) -> Reply:
        with self._changed:
            self.webhook = asked if asked.get("url") else {}
            self._changed.notify_all()
        return _ok(True)

    # --- the webhook ---

    def _push_forever(self) -> None:
        """One after the other, again until it is taken."""
        while not self.closed.is_set():
            with self._changed:
                hook, update = dict(self.webhook), self.waiting[0] if self.waiting else None
                if update is None or not hook.get("url"):
                    self._changed.wait(0.05)
                    continue
            if push_update(hook["url"], hook.get("secret_token", ""), update) == 200:
                with self._changed:
                    self.waiting = [each for each in self.waiting if each is not update]
            else:
                self.closed.wait(PUSH_AGAIN_SECONDS)


def push_update(url: str, secret: str, update: dict[str, Any]) -> int:
    """Bring an update to a webhook; the status of the answer, 0 if there is none."""
    headers = {"Content-Type": "application/json", "X-Telegram-Bot-Api-Secret-Token": secret}
    request = urllib.request.Request(url, json.dumps(update).encode(), headers)  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=PUSH_SECONDS) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def _ok(result: Any) -> Reply:
    return Reply.json({"ok": True, "result": result})


def _error(status: int, description: str, **parameters: Any) -> Reply:
    told: dict[str, Any] = {"ok": False, "error_code": status, "description": description}
    return Reply.json({**told, **({"parameters": parameters} if parameters else {})}, status)


def told_error(status: int, description: str = "scripted failure", **parameters: Any) -> Act:
    """An error as Telegram tells it; `retry_after=2` is a parameter of 429."""
    return reply(_error(status, description, **parameters))
