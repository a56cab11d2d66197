"""The pages: server-rendered templates, one stylesheet, live by Server-Sent Events."""
