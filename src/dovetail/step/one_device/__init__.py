"""One device in a training loop: its compute beside its collectives, which share the chip and slow each other."""
