"""Models as other tools hold them, recorded in neutral words: PyTorch modules and ONNX files."""
