"""Commands on log stores: serve, list, checkpoint, tail."""
