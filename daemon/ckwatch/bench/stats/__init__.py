"""Statistics of time samples: how long, how certain, and which of two kernels is faster.

Times of launches are skewed, have rare stalls of 4 to 20 times the usual, and drift with the clock. So everything here
rests on ranks (medians, quartiles, order statistics), never on means.
"""
