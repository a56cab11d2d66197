"""The job engine beside pgqueuer, procrastinate and the raw limit, on one durable PostgreSQL."""
