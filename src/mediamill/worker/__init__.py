"""The worker process: its loop, the sandbox of child processes, and where its jobs come from."""
