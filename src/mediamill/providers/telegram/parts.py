"""The parts of one bot on Telegram, put together."""

from __future__ import annotations

from dataclasses import dataclass

from mediamill.conversations.provider import BotContext
from mediamill.db.connection import Database
from mediamill.inputs.look import RunWatch
from mediamill.inputs.spool import Spool
from mediamill.providers.telegram.acks import Acks
from mediamill.providers.telegram.answerer import RunAnswerer
from mediamill.providers.telegram.api import BotApi
from mediamill.providers.telegram.config import TelegramConfig, account_of, read_config
from mediamill.providers.telegram.consume import Consumer
from mediamill.providers.telegram.identity import Identity
from mediamill.providers.telegram.images import ImageTaker
from mediamill.providers.telegram.inbox import Inbox
from mediamill.providers.telegram.media import MediaStager
from mediamill.providers.telegram.poll import Poller, Tell
from mediamill.providers.telegram.runs import Runs
from mediamill.providers.telegram.secret import webhook_secret
from mediamill.providers.telegram.send import Sender
from mediamill.providers.telegram.take import Taker
from mediamill.settings import Settings
from mediamill.staging.quota import StagingRoom

WEBHOOK_PATH = "/api/telegram/{bot_id}/webhook"


@dataclass(frozen=True, slots=True)
class House:
    """What all bots of a process share."""

    settings: Settings
    database: Database
    watch: RunWatch
    spool: Spool
    room: StagingRoom


@dataclass(frozen=True, slots=True)
class Parts:
    """Of one bot."""

    api: BotApi
    inbox: Inbox
    runs: Runs
    taker: Taker
    consumer: Consumer
    poller: Poller
    mouth: Sender
    media: MediaStager
    answerer: RunAnswerer | None  # None: no agent answers for the bot
    webhook_secret: str  # empty: it polls


def put_together(context: BotContext, house: House, tell: Tell) -> Parts:
    """BadTelegramConfigError: it cannot be."""
    settings, database, bot_id = house.settings, house.database, context.bot_id
    config, token = read_config(context.config, settings)
    account, files = account_of(token), settings.telegram_files
    api = BotApi(settings.telegram_url, token)
    inbox, runs = Inbox(database, bot_id, account), Runs(bot_id, context.reply)
    acks, mouth = Acks(database, api, bot_id, account), Sender(database, api, bot_id)
    media = MediaStager(
        api,
        settings.data_folder,
        house.room,
        quota_gb=context.quota_gb,
        file_limit_bytes=settings.upload_limit_bytes,
        shared_folder=files,
    )
    identity = Identity(account)
    images = ImageTaker(inbox, api, house.spool, runs, acks, files, context.gate)
    taker = Taker(context, inbox, runs, images, media, mouth, identity)
    consumer = Consumer(bot_id, inbox, taker, acks)
    webhook = _webhook(config, token, bot_id)
    poller = Poller(api, inbox, tell, consumer.wake, webhook, identity)
    answerer = RunAnswerer(database, api, bot_id, runs, taker, house.watch) if runs.by_agent else None
    return Parts(
        api, inbox, runs, taker, consumer, poller, mouth, media, answerer, webhook[1] if webhook else ""
    )


def _webhook(config: TelegramConfig, token: str, bot_id: str) -> tuple[str, str] | None:
    """Its address and secret."""
    if config.mode != "webhook" or config.webhook_url is None:
        return None
    return config.webhook_url.rstrip("/") + WEBHOOK_PATH.format(bot_id=bot_id), webhook_secret(token)
