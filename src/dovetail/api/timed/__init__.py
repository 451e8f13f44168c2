"""What `dovetail validate --all` times and proves: the commonest operations, and a few gaps."""
