"""How right the texts are: speech, reading and tags, on labelled data that the developers did not pick."""
