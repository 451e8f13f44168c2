"""How far predictions are from measurements: sets of measured rows, their scores, the bars they must meet, and fits."""
