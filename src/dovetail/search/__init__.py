"""Choice: planners find a plan for a cluster, mining finds the chip, codesign both and the network together."""
