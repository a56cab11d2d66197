"""Telegram: a bot by the Bot API. Updates are in the database before Telegram is told that we have them."""
