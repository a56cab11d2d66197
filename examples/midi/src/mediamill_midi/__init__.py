"""MIDI files as text, for mediamill."""
