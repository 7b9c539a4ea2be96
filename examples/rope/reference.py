import numpy as np


def neox(Q, Positions, Cosines, Sines):
    half = Q.shape[2] // 2
    return np.concatenate(_rotated(Q[..., :half], Q[..., half:], Positions, Cosines, Sines), axis=2)


def interleaved(Q, Positions, Cosines, Sines):
    pairs = _rotated(Q[..., 0::2], Q[..., 1::2], Positions, Cosines, Sines)
    return np.stack(pairs, axis=3).reshape(Q.shape)


def inputs(sizes, rng):
    """Angles as models use them, so that a cosine belongs to its sine."""
    frequencies = 10000.0 ** (-2 * np.arange(sizes["D"] // 2) / sizes["D"])
    angles = np.arange(sizes["P"])[:, None] * frequencies
    return {"Cosines": np.cos(angles), "Sines": np.sin(angles)}


def _rotated(first, second, positions, cosines, sines):
    cosine, sine = cosines[positions][:, None, :], sines[positions][:, None, :]
    return first * cosine - second * sine, second * cosine + first * sine
