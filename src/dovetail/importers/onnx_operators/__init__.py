"""ONNX operators in neutral words, one family to a file: saving a file is all it takes to be found."""
