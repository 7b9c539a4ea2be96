import numpy as np


def silu_and_multiply(A, B):
    return A / (1 + np.exp(-A)) * B
