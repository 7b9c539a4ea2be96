import numpy as np


def rmsnorm_quantized(X, Gamma, Residual, epsilon):
    # The kernel goes on with the sum as it is stored, in f16.
    residual = (X + Residual).astype(np.float16).astype(np.float64)
    normalized = residual / np.sqrt(np.mean(residual**2, axis=1, keepdims=True) + epsilon) * Gamma
    scale = np.max(np.abs(normalized), axis=1) / 127
    quantized = np.rint(normalized / np.where(scale > 0, scale, 1)[:, None])
    return {"Residual": residual, "Y": quantized, "Scale": scale}
