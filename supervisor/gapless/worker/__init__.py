"""The processes of one machine: a supervisor, one worker per leased partition, a sequencer.

No connection crosses a fork: a child closes its parent's control socket by descriptor and opens its
own. A worker's advisory lock, LISTEN and work are one session, so they die together. A worker
never reconnects with an old lease: it exits, and the supervisor forks another.
"""
