"""Texts and images for an agent: runs, the images that wait for them, and whoever works them off."""
