"""Conversations: messages in per-correspondent queues, media that become text without holding anything up, replies."""
