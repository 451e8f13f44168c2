"""What computes: chips, memories, links, topologies, clusters, and a catalogue of real ones."""
