"""Within one trial: what one plugin does reaches no other one, and whoever does it is named."""
