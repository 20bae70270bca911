"""One step: claim, split into units, handle, commit (I5, I6, I9). No loop, process or screen."""
