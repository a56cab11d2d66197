"""The `mediamill` command, one file per noun, thin over the same verbs as the API."""
