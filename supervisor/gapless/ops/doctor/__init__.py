"""The checks of `gapless doctor`: each is a function from a Patient to findings."""
