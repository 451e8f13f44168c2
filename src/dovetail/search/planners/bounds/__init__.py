"""What no plan can beat: the least seconds and bytes of blocks, stages, pipelines and steps, whatever is still open."""
