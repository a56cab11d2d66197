"""Files of projects: what is in them, and the fields that a person accepts or not."""
