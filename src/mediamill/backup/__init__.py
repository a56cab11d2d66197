"""Backups: the database in one snapshot and every file that its rows name, out to a folder and back in again."""
