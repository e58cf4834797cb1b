"""Real clients of Safelight's server."""
