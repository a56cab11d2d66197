"""Sustained load: enqueue and drain for minutes on end, and see that nothing grows."""
