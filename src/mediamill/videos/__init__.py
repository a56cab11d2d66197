"""Videos: uploads, adaptive streams, captions; their rows, and the jobs that move them."""
