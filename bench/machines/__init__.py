"""Three machines, as network namespaces around a switch of our own: links cut, nodes killed, processes paused."""
