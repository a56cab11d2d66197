"""The HTTP door: one file per noun, each a thin layer over verbs that exist."""
