"""Files of a project to text and proposed fields: by a model where one is set, else by rules."""
