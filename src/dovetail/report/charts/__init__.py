"""Charts, one file each: from a report's values to plain figures that page, notebook and explorer draw alike."""
