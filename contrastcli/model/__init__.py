"""Texts to vectors: the backbone, its pooling and the folders that it is read from and saved to."""
