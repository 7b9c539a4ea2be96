"""What samples of a time say: how long, how sure, and whether one kernel is faster than another.

Times of launches are skewed, have rare stalls of 4 to 20 times the usual, and drift with the clock. So everything here
rests on ranks (medians, quartiles, order statistics), never on means.
"""
