"""When things happen: microbatches on the stages of a pipeline, communication beside compute."""
