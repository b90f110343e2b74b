"""How long a bucket is left to its newest writer, when writers take it from each other in turn.

1. A writer that opens takes its buckets at once: a job that is started anew goes on without delay.
2. A takeover is *fruitless* if the new writer has committed no record of any of its buckets. After
   ``AT_ONCE`` fruitless ones in a row, within ``WINDOW_US``, several writers are started anew again
   and again, and each replaces the other before its first checkpoint. The newest writer is then
   left alone for ``FIRST_S``, and for twice as long after each further one, up to ``MOST_S``; or
   until it has committed something.
3. So a fight cannot go on without a commit: in the end a writer lasts long enough for one.
4. Times are the events', and the opener's own. An opener whose clock is behind waits for the
   whole time at most. One whose clock is ahead may not wait; then its rivals do.
"""

from collections.abc import Sequence

from airflow_provider_segtable.core.time import SECOND_US, Instant

AT_ONCE = 2
FIRST_S = 1.0
MOST_S = 60.0
WINDOW_US = 600 * SECOND_US


def left_alone_s(fruitless: Sequence[Instant], now: Instant) -> float:
    """Return for how many seconds the newest writer of a bucket is still left alone.

    Args:
        fruitless: the times of the newest takeovers, newest first, back to the last commit.
        now: the present time.
    """
    recent = [taken for taken in fruitless if taken > fruitless[0] - WINDOW_US]
    if len(recent) <= AT_ONCE:
        return 0.0
    tenure_s = min(FIRST_S * 2.0 ** (len(recent) - AT_ONCE - 1), MOST_S)
    lasted_s = max(0.0, (now - recent[0]) / SECOND_US)
    return max(0.0, tenure_s - lasted_s)
