"""Files in, results out: the contract of processors and their registry. No database here."""
