"""A plan as what starts the run, or as the nearest that a framework runs: launchers, and who can run what."""
