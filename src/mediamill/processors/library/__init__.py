"""What becomes of a library's files: each is opened once, read once, and never written; small stand-ins come out."""
