def transpose(X):
    return X.T
