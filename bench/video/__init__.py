"""Videos: the ladder beside ffmpeg, what resuming and checkpoints cost, uploads."""
