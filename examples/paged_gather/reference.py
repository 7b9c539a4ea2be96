import numpy as np


def paged_gather(Cache, Pages, Lengths, L, P):
    rows = np.arange(L)
    gathered = Cache[Pages[:, rows // P], rows % P]
    return np.where((rows < Lengths[:, None])[..., None], gathered, 0)
