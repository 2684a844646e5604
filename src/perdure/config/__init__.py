"""Configuration: what it may say, where it lies, which files count, and what a Location is."""
