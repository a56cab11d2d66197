"""Read-only libraries of photos and videos: scanned, milled, found."""
