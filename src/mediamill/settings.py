"""Every setting, read once in app.py from the environment (`MEDIAMILL_…`). A section per folder."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from mediamill.local_key import DATA_FOLDER

_ADDRESS = re.compile(r"https?://[^\s/?#@\\]+(/[^\s?#\\]*)?")


class Settings(BaseSettings):
    """All of it, frozen. The description of each field is its documentation (docs/reference/settings.md)."""

    model_config = SettingsConfigDict(env_prefix="MEDIAMILL_", frozen=True, extra="ignore")

    # files
    data: Path = Field(
        default=DATA_FOLDER,
        description="The data folder: the embedded database, staged media, logs.",
    )
    secrets: Path | None = Field(
        default=None,
        description="Folder with a file for each secret, named as its variable (`MEDIAMILL_DATABASE_URL`), as systemd, "
        "compose and Kubernetes provide it: an environment can be read by other processes of the user. A variable that "
        "is set takes precedence over its file.",
    )

    # storage
    bucket: str | None = Field(
        default=None,
        description="Name of an S3-compatible bucket that takes the place of the data folder for lasting files, so "
        "that several servers and workers share them. Unset: they lie in the data folder.",
    )
    bucket_url: str | None = Field(
        default=None,
        description="Address of the bucket's server (`https://s3.example.com`). Unset: that of AWS for the region.",
    )
    bucket_region: str = Field(default="us-east-1", description="Region of the bucket.")
    bucket_prefix: str = Field(
        default="",
        description="What the keys of all objects begin with, for a bucket that is shared with others.",
    )
    bucket_key_id: str | None = Field(
        default=None,
        description="Access key id. Unset: found where AWS's own programs look (`AWS_ACCESS_KEY_ID`, the role of the "
        "machine or of the pod).",
    )
    bucket_secret: SecretStr | None = Field(default=None, description="The secret of the access key.")
    bucket_path_style: bool = Field(
        default=True,
        description="The bucket's name is in the path of an address (`host/bucket/key`), not before the host.",
    )
    bucket_cache_gb: float = Field(
        default=10,
        ge=0,
        description="So much of the data folder may hold copies of files in the bucket, for work that needs them "
        "locally; the longest unused go first, and none that was used within six hours.",
    )
    bucket_keep_days: float = Field(
        default=7,
        ge=0,
        description="Objects of files that were deleted stay in the bucket for so long, so that a backup of the "
        "database finds its files when it is restored.",
    )

    # db
    database_url: SecretStr | None = Field(
        default=None,
        description="Any PostgreSQL >= 16 (`postgresql://user:password@host/name`). "
        "Unset: an embedded server in the data folder.",
    )
    database_direct_url: SecretStr | None = Field(
        default=None,
        description="The same PostgreSQL without a pooler in between, if `MEDIAMILL_DATABASE_URL` is a pooler in "
        "transaction mode (PgBouncer and the like): for locks, listening and claims, which need sessions.",
    )
    database_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="Let the embedded PostgreSQL listen on this loopback TCP port too. Unset: a unix socket only.",
    )
    database_connections: int = Field(
        default=8, ge=2, le=100, description="Most connections that one process keeps in its pool."
    )

    # api and ui
    host: str = Field(
        default="127.0.0.1",
        description="Address that the server listens on. Beyond loopback it needs an admin secret.",
    )
    port: int = Field(default=8420, ge=0, le=65535, description="Port of the server.")
    admin_secret: SecretStr | None = Field(
        default=None,
        description="Secret that opens everything, from any machine, with at least 16 characters "
        "(`openssl rand -hex 32`): the first way in, by which users and tokens are made.",
    )
    hosts: str = Field(
        default="",
        description="Names by which browsers and programs reach the server, separated by commas (`mill.example`); it "
        "answers requests to any other name with 421. Loopback names are always accepted; beyond loopback, so are "
        "addresses, and any name while this is empty.",
    )
    trusted_proxies: str = Field(
        default="",
        description="Addresses or networks, separated by commas, of proxies in front of the server. What they say in "
        "X-Forwarded-For and X-Forwarded-Proto is believed: who asks, and whether by https.",
    )
    costly_requests_per_minute: int = Field(
        default=600,
        ge=0,
        description="Searches, exports, messages and other expensive requests that a user or token may send in a "
        "minute; 0: any number. Commands of the server's own user are not counted.",
    )
    streams_per_caller: int = Field(
        default=50,
        ge=1,
        description="Live streams (events, answers of an agent, wake-ups of a worker) that one user, token or worker "
        "may have open at once, on each server.",
    )

    # access
    session_hours: float = Field(
        default=168, gt=0, le=8760, description="How long a browser stays logged in at most."
    )
    session_idle_hours: float = Field(
        default=24,
        ge=0.1,
        le=8760,
        description="A browser that sent no request for so long is logged out; a page that is open sends some.",
    )
    public_url: str | None = Field(
        default=None,
        description="Address at which browsers reach the server (`https://mill.example`). Passkeys and single sign-on "
        "need it; unset, they work on `http://localhost` only.",
    )
    oidc_issuer: str | None = Field(
        default=None,
        description="Provider of single sign-on by OpenID Connect, exactly as it calls itself "
        "(`https://id.example/realms/home`). Unset: no single sign-on.",
    )
    oidc_client_id: str | None = Field(default=None, description="Our client id at the provider.")
    oidc_client_secret: SecretStr | None = Field(
        default=None, description="Our secret at the provider. Unset: a public client, with PKCE alone."
    )
    oidc_label: str = Field(
        default="single sign-on",
        max_length=60,
        description="What the provider is called on the login page: “Continue with …”.",
    )
    oidc_scopes: str = Field(
        default="openid profile email",
        description="Scopes that are asked of the provider; some need `groups` too, to send groups.",
    )
    oidc_name_claim: str = Field(
        default="preferred_username", description="Claim that becomes the name of a new user."
    )
    oidc_groups_claim: str = Field(default="groups", description="Claim that lists somebody's groups.")
    oidc_admins: str = Field(
        default="",
        description="Groups and verified e-mail addresses, separated by commas, that log in with the scope `admin`.",
    )
    oidc_users: str = Field(
        default="",
        description="Groups and verified e-mail addresses, separated by commas, that log in with the scopes `read` and "
        "`ingest`. Who is in neither list is not let in.",
    )
    token: SecretStr | None = Field(
        default=None,
        description="Token that commands show to the server (`mediamill tokens create`). Unset: the admin secret if "
        "that is set, else a pass signed with the key in the data folder.",
    )
    audit_keep_days: float = Field(
        default=365, ge=0, description="How long the audit log remembers; 0: for ever."
    )

    # worker
    worker_processes: int = Field(
        default=1, ge=0, le=64, description="Local worker processes that `mediamill up` starts."
    )
    worker_name: str | None = Field(
        default=None, description="Name of this worker. Unset: host name and process id."
    )
    worker_gpu: bool = Field(
        default=False, description="This worker has a GPU; it is offered GPU-capable work first."
    )
    worker_pools: str = Field(
        default="", description="Pools that this worker serves, separated by commas. Empty: all of them."
    )
    sandbox_landlock: bool = Field(
        default=True,
        description="Child processes that decode media are confined to their own files by Landlock, where the kernel "
        "has it. Switch it off only to find out whether it is in the way of a plugin.",
    )
    sandbox_seccomp: bool = Field(
        default=True,
        description="Child processes that decode media may use only the system calls that decoding needs, where the "
        "kernel can filter them. Switch it off only to find out whether it is in the way of a plugin.",
    )
    sandbox_environment: str = Field(
        default="",
        description="Environment variables that are passed on to child processes besides the usual ones, separated by "
        "commas: for plugins that need some. Whoever takes over a child can read them.",
    )
    worker_environment: str = Field(
        default="",
        description="Names of variables, separated by commas, that the workers of `mediamill up` get besides those of "
        "mediamill: for plugins. Whatever else is in the environment of the server does not reach them.",
    )
    server: str | None = Field(
        default=None,
        description="Address of the server that `mediamill worker` works for (`https://host`), on a machine without "
        "a database. Unset: it takes its jobs from the database.",
    )
    worker_key: SecretStr | None = Field(
        default=None, description="Key of this worker, as `mediamill workers register` shows it once."
    )
    worker_file_limit_bytes: int = Field(
        default=1024**3, gt=0, description="Largest single file that a remote worker may send to the server."
    )
    child_idle_seconds: float = Field(
        default=300,
        gt=0,
        description="A child process that has had no job for so long is ended; the next job starts one again.",
    )

    # processors
    speech: Literal["local", "openai", "hub"] = Field(
        default="local",
        description="Who turns speech into text: `local` (a model from a package), `openai` (any compatible endpoint) "
        "or `hub` (a larger faster-whisper model, fetched from the model hub).",
    )
    speech_model: str | None = Field(
        default=None,
        description="Name of the speech model. Unset: the default of the chosen engine (`mediamill models`).",
    )
    speech_language: str | None = Field(
        default=None, description="Language of the speech as a code (`en`, `de`). Unset: it is found out."
    )
    vision: Literal["local", "openai", "moondream"] = Field(
        default="local",
        description="Who looks at images: `local` (tags), `openai` (sentences, by any compatible endpoint) "
        "or `moondream` (sentences, by a Moondream endpoint).",
    )
    vision_model: str | None = Field(
        default=None, description="Name of the vision model. Unset: the default of the chosen engine."
    )
    video: Literal["local", "gemini"] = Field(
        default="local",
        description="Who describes videos: `local` (scenes, frames and speech by the engines above) "
        "or `gemini` (the whole file is uploaded to Gemini).",
    )
    video_model: str | None = Field(
        default=None, description="Name of the video model. Unset: the default of the chosen engine."
    )
    text: Literal["none", "openai"] = Field(
        default="none", description="Who writes and extracts text: nobody, or any OpenAI-compatible endpoint."
    )
    text_model: str | None = Field(
        default=None, description="Name of the text model, for `text=openai` and for agents."
    )
    embedding: Literal["local", "openai", "hub"] = Field(
        default="local",
        description="Who turns texts and images into vectors for search: `local`, `openai` (texts only) or `hub` "
        "(a CLIP or SigLIP model, fetched from the model hub).",
    )
    embedding_model: str | None = Field(
        default=None, description="Name of the embedding model. Unset: the default of the chosen engine."
    )
    library_read_text: bool = Field(
        default=True,
        description="Text in the images and video frames of libraries is read, so that they are found by it. It costs "
        "more than looking at them.",
    )
    openai_url: str | None = Field(
        default=None,
        description="The OpenAI-compatible endpoint (llama.cpp, Ollama, vLLM, a cloud), up to and including `/v1`.",
    )
    openai_key: SecretStr | None = Field(default=None, description="Key for the OpenAI-compatible endpoint.")
    gemini_url: str = Field(
        default="https://generativelanguage.googleapis.com", description="Address of the Gemini API."
    )
    gemini_key: SecretStr | None = Field(default=None, description="Key for the Gemini API.")
    moondream_url: str | None = Field(default=None, description="Address of a Moondream endpoint.")
    moondream_key: SecretStr | None = Field(default=None, description="Key for the Moondream endpoint.")
    model_servers: str = Field(
        default="",
        description="Further servers that processors of plugins may call, as addresses separated by commas "
        "(`http://gpu:9000/api`): these and all that is beneath them. The servers named above need no entry.",
    )
    model_timeout_seconds: float = Field(
        default=120, gt=0, description="How long one answer of a model beyond this machine may take."
    )
    models: Path | None = Field(
        default=None, description="Folder of the model files. Unset: inside the Python environment."
    )
    processor_threads: int = Field(
        default=min(4, os.cpu_count() or 1), ge=1, le=64, description="Threads that one model may use."
    )
    text_limit_characters: int = Field(
        default=100_000,
        ge=1_000,
        le=200_000,
        description="Longest text in a result; the whole is then in a file.",
    )
    document_pages: int = Field(
        default=500,
        ge=1,
        description="Pages, sheets or slides of a document that are read; the rest is counted.",
    )
    document_ocr_pages: int = Field(
        default=50, ge=0, description="Scanned pages of a document that are read by OCR."
    )
    stub_image_seconds: float = Field(
        default=5, ge=0, description="How long the image stub pretends to work."
    )
    stub_audio_seconds: float = Field(
        default=10, ge=0, description="How long the audio stub pretends to work."
    )
    stub_video_seconds: float = Field(
        default=60, ge=0, description="How long the video stub pretends to work."
    )

    # videos
    video_segment_seconds: float = Field(
        default=4,
        ge=1,
        le=20,
        description="Length of a segment of a stream, and so the finest step of a resume.",
    )
    video_preset: Literal[
        "ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower"
    ] = Field(default="veryfast", description="Of the software encoder: slower gives smaller files.")
    video_encoder: Literal["auto", "software", "nvenc", "qsv", "vaapi"] = Field(
        default="auto",
        description="Who encodes: `auto` takes a graphics card that works, else the processor.",
    )
    video_critical: str = Field(
        default="lowest",
        pattern="^(lowest|2160p|1440p|1080p|720p|480p|360p)$",
        description="The quality without which a video fails: `lowest`, or a name such as `720p` (`lowest` for sources "
        "that are too small for it).",
    )
    video_resume: bool = Field(
        default=True, description="Another attempt goes on from the finished qualities and segments."
    )
    video_clean_partial: bool = Field(
        default=True, description="What a video that failed for good had finished is deleted."
    )
    video_captions: bool = Field(
        default=True, description="What is said in a video is written down when its stream is ready."
    )
    video_trash_keep_days: int = Field(
        default=30,
        ge=0,
        description="How long deleted videos can be restored; 0: until the trash is emptied.",
    )

    # libraries
    library_vanished_days: int = Field(
        default=30,
        ge=0,
        description="How long a library remembers a file that is gone, with its tags; 0: for ever.",
    )

    # intake
    intake_watch_seconds: float = Field(
        default=5,
        gt=0,
        description="Time between two looks at the watched folders of projects. A file that did not change from one "
        "look to the next is taken in.",
    )

    # agents
    agent: Literal["openai", "pi"] = Field(
        default="openai",
        description="Who answers as an agent: `openai` (a chat with the OpenAI-compatible endpoint) or `pi` "
        "(the pi agent, set up on first use, with the same endpoint and `MEDIAMILL_TEXT_MODEL`).",
    )
    agent_context_tokens: int = Field(
        default=32_000,
        ge=2_000,
        description="How much of a conversation the agent's model can hold; older turns are left out or summed up.",
    )
    agent_timeout_seconds: float = Field(
        default=600, gt=0, description="How long one run of the pi agent may take, with all its steps."
    )
    pi_sessions: int = Field(
        default=4,
        ge=1,
        le=64,
        description="Most pi processes at once (about 160 MB each); idle ones make room, other threads wait.",
    )
    pi_idle_seconds: float = Field(
        default=300, gt=0, description="A pi process that had nothing to do for so long is stopped."
    )
    pi_thread_keep_days: float = Field(
        default=90,
        gt=0,
        description="How long the pi agent remembers a thread that nobody uses; its texts and images are then deleted.",
    )
    pi_tools: str = Field(
        default="",
        description="Tools that the pi agent may use, separated by commas (`read,bash,edit,write,grep,find,ls`). "
        "They run as this user: whoever can write to the agent can then reach what this user can. Empty: none.",
    )

    # staging
    staged_keep_hours: float = Field(
        default=4, gt=0, description="Age at which a staged file that no job names is deleted."
    )
    upload_limit_bytes: int = Field(
        default=2 * 1024**3, gt=0, description="Largest file that can be sent to a bot over HTTP."
    )
    video_upload_limit_bytes: int = Field(
        default=100 * 1024**3, gt=0, description="Largest video that can be uploaded."
    )
    upload_keep_hours: float = Field(
        default=24,
        gt=0,
        description="How long an upload that broke off is kept, so that it can go on from where it was; and a finished "
        "one is found by its file, if its sender did not hear that it is finished.",
    )
    failed_media_keep_hours: float = Field(
        default=24,
        ge=0,
        description="How long the file of a failed media message is kept, so that it can be tried again. Damaged and "
        "unsupported files are deleted at once.",
    )

    # conversations
    ingest_seconds: float = Field(
        default=1, gt=0, description="Time between two rounds in which finished messages are stored."
    )
    placeholder_keep_hours: float = Field(
        default=3,
        gt=0,
        description="Age at which a message that still waits for the text of its media is given up.",
    )
    message_ids_keep_days: int = Field(
        default=30, ge=1, description="How long a message that comes again is known to have come before."
    )
    reply_timeout_seconds: float = Field(
        default=120, gt=0, description="How long one automatic answer may take."
    )
    sender_messages_per_day: int = Field(
        default=200,
        ge=0,
        description="Messages that one person may send to a bot on a chat network in a day (midnight to midnight UTC). "
        "0: any number. A bot can have a limit of its own: `mediamill bots set NAME messages_per_day=50`.",
    )
    sender_media_seconds_per_day: int = Field(
        default=3_600,
        ge=0,
        description="Seconds of sound and video that one person may send to a bot in a day. 0: any number.",
    )
    sender_tokens_per_day: int = Field(
        default=1_000_000,
        ge=0,
        description="Tokens of the model that the answers to one person may cost in a day; what comes after "
        "that is not answered. 0: any number.",
    )

    # providers
    bridge_url: str | None = Field(
        default=None,
        description="Address of a WhatsApp bridge that somebody else runs (`http://bridge:8430`). "
        "Unset: one is started as soon as a bot is on WhatsApp.",
    )
    bridge_secret: SecretStr | None = Field(
        default=None,
        description="Secret that server and WhatsApp bridge share. Unset: a random one, kept in the data folder.",
    )
    telegram_token: SecretStr | None = Field(
        default=None,
        description="Token of the Telegram bot, as @BotFather gives it, for a bot whose configuration names none.",
    )
    telegram_url: str = Field(
        default="https://api.telegram.org",
        description="Address of the Bot API: Telegram's, which hands out files of up to 20 MB, or a local server's.",
    )
    telegram_files: Path | None = Field(
        default=None,
        description="Folder of a local Bot API server with `--local`, which keeps its files there for us to read.",
    )

    # engine
    heartbeat_seconds: float = Field(default=30, gt=0, description="Time between two heartbeats of a worker.")
    offline_after_seconds: float = Field(
        default=300, gt=0, description="Silence after which a worker counts as offline."
    )
    session_grace_seconds: float = Field(
        default=5,
        ge=0,
        description="How long a worker with a database session may be without it before its claims are released.",
    )
    startup_grace_seconds: float = Field(
        default=120,
        ge=0,
        description="After a server start, workers known only by heartbeat are left alone this long.",
    )
    max_releases: int = Field(
        default=5,
        ge=1,
        description="After so many workers that died while they processed it, a file that should become text goes to "
        "the dead letter. A worker that dies costs any other job an attempt.",
    )
    sweep_seconds: float = Field(default=60, gt=0, description="Time between two sweeps for expired claims.")
    janitor_seconds: float = Field(default=3600, gt=0, description="Time between two runs of the janitor.")
    finished_keep_hours: float = Field(
        default=24, ge=0, description="How long a finished job can still be looked up."
    )
    events_keep_hours: float = Field(
        default=24, ge=0, description="How long live events can be resumed from."
    )
    payload_limit_bytes: int = Field(
        default=1_000_000, gt=0, description="Largest payload, checkpoint or result of a job, as JSON."
    )

    # dispatch
    redis_url: SecretStr | None = Field(
        default=None,
        description="A Redis or Valkey >= 6.2 for `redis` and `hybrid` (`redis://user:password@host:6379/0`, "
        "`rediss://` with TLS, `unix:///path`). It keeps nothing that matters, and may be shared.",
    )
    redis_pool_size: int = Field(
        default=10, ge=4, le=1000, description="Most connections that one process keeps to Redis."
    )
    queue_mode: Literal["database", "redis", "hybrid"] = Field(
        default="database",
        description="How waiting workers are woken: `database` by LISTEN/NOTIFY; `redis` by Redis Streams, which "
        "tell one worker of a job instead of all; `hybrid` by Redis, and by the database while Redis is away. "
        "Behind each is a poll, and the database alone decides who holds a job.",
    )

    # alerts
    alert_webhook_url: SecretStr | None = Field(
        default=None,
        description="Where alerts are posted (also Slack and Discord webhooks). Unset: no alerts.",
    )
    alert_webhook_secret: SecretStr | None = Field(
        default=None, description="Signing secret of the Standard Webhooks scheme (`whsec_…`)."
    )
    alert_rate_limit_seconds: float = Field(
        default=300, ge=0, description="At most one alert per type in this time."
    )
    alert_timeout_seconds: float = Field(default=10, gt=0, description="Time limit of one webhook call.")
    alert_allow_private: bool = Field(
        default=False, description="Allow alert webhooks on private, loopback and link-local addresses."
    )
    alert_worker_events: bool = Field(default=False, description="Also alert when a worker starts or stops.")
    alert_pattern_failures: int = Field(
        default=3, ge=2, description="Failures of one subject after which `job_failed_pattern` is raised."
    )

    # logs
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Least severity shown in the terminal."
    )

    @field_validator("database_direct_url")
    @classmethod
    def _find_pooler(cls, direct: SecretStr | None, given: ValidationInfo) -> SecretStr | None:
        if direct is not None and given.data.get("database_url", ...) is None:
            raise ValueError("needs MEDIAMILL_DATABASE_URL, the pooler's address")
        return direct

    log_format: Literal["plain", "json"] = Field(
        default="plain",
        description="How log lines are written: `plain`, or `json` (one object a line, with event, ids and trace).",
    )
    traces_url: str | None = Field(
        default=None,
        description="Where traces are sent, by OTLP over HTTP (`http://collector:4318`); needs `mediamill[otel]`. The "
        "variables of OpenTelemetry (`OTEL_EXPORTER_OTLP_ENDPOINT`, …) work too. Without either: no traces.",
    )
    flight_dumps: int = Field(
        default=50,
        ge=1,
        le=10_000,
        description="Most flight logs of workers that are kept, in the database and in the folder of each machine.",
    )
    flight_dumps_keep_days: float = Field(default=30, gt=0, description="How long they are kept at most.")

    @field_validator("model_servers")
    @classmethod
    def _check_addresses(cls, listed: str) -> str:
        if not all(_ADDRESS.fullmatch(each.strip()) for each in listed.split(",") if each.strip()):
            raise ValueError(
                "must be addresses (http://host:port/path) separated by commas, without user or query"
            )
        return listed

    @field_validator("public_url", "oidc_issuer")
    @classmethod
    def _check_address(cls, url: str | None, given: ValidationInfo) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("is not an address like https://mill.example")
        if given.field_name == "public_url":
            if parts.path not in ("", "/"):
                raise ValueError("must not have a path")
            return url.rstrip("/")
        if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise ValueError("must be an https address")
        return url

    @field_validator("queue_mode")
    @classmethod
    def _find_redis(cls, mode: str, given: ValidationInfo) -> str:
        if mode != "database" and given.data.get("redis_url", ...) is None:
            raise ValueError("needs MEDIAMILL_REDIS_URL")
        return mode

    @property
    def data_folder(self) -> Path:
        """The data folder as an absolute path."""
        return self.data.expanduser().absolute()

    @property
    def models_folder(self) -> Path:
        """Where the model files lie; they belong to the installation, as packages do."""
        return (self.models or Path(sys.prefix) / "share" / "mediamill" / "models").expanduser().absolute()
