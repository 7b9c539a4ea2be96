"""The right results: functions of NumPy arrays, sizes and runtime arguments, by their names in the kernel file."""


def scale_rows(X, Factors):
    return X * Factors[:, None]
