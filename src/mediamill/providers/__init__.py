"""Chat networks: each implements the provider contract of conversations."""
