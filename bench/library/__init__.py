"""Libraries: scans, and a catalogue of millions."""
