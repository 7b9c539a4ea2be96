import numpy as np


def reduction(X):
    return X.sum(keepdims=True)


def scan(X):
    return np.cumsum(X, dtype=np.int64)
