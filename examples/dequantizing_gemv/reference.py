import numpy as np


def gemv_i4(W, Scales, X):
    quantized = np.stack([W & 15, W >> 4], axis=2).reshape(W.shape[0], -1).astype(np.float64) - 8
    return (quantized * np.repeat(Scales, 32, axis=1)) @ X
