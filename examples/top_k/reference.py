import numpy as np


def top_k(X, K):
    columns = np.argsort(-X, axis=1, kind="stable")[:, :K]
    return np.take_along_axis(X, columns, axis=1), columns.astype(np.int32)
