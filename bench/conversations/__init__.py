"""Conversations under load: does slow media delay text, does memory stay flat, are bots served fairly?"""
