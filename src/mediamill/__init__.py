"""mediamill: media in from anywhere; text, streams, previews and search out, durably and exactly once."""

__version__ = "0.1.0"
