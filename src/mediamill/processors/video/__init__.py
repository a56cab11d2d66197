"""Video: what is to be seen and heard in it, and when."""

from mediamill.processors.video.processor import VideoDescriptionProcessor

__all__ = ["VideoDescriptionProcessor"]
