"""Durable jobs on PostgreSQL: enqueue, claim, lease, settle, hold, recover. Knows nothing of media."""
