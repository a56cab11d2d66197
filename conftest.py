"""Loads the record of requirements for every test run."""

pytest_plugins = ["tests.spec_plugin"]
