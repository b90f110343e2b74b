"""Manifests: which files a version has, with their statistics and hidden rows."""
