"""Choice: planners find a plan for a cluster."""
