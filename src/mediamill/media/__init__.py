"""Media files as bytes, pixels and samples: what they are, and how to open them within limits. No database here."""
