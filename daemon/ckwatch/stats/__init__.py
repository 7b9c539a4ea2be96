"""What samples of a time say: how long, how sure, and whether one is faster than another.

Times of launches are skewed, have rare stalls of 4 to 20 times the usual, and drift with the clock. So everything here
rests on ranks (medians, quartiles, order statistics), never on means.
"""

from ckwatch.stats.comparison import Compared, Verdict, compare, compare_interleaved
from ckwatch.stats.stopping import Stopping, steady
from ckwatch.stats.summary import Summary, summary

__all__ = [
    "Compared",
    "Stopping",
    "Summary",
    "Verdict",
    "compare",
    "compare_interleaved",
    "steady",
    "summary",
]
