"""What can be found, and finding it: by words, by meaning and by look."""
