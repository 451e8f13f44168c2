"""The best accelerator for training: designs of a template chip, scored by schedules of what a device must do."""
