"""Wake-ups: who tells a worker or a page that there is something new. Never the truth: that is in the database."""
