"""Documents to text: one small reader per format, each bounded, for files of strangers."""

from mediamill.processors.document.processor import DocumentProcessor

__all__ = ["DocumentProcessor"]
