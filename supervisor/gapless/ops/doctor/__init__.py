"""What `gapless doctor` looks at: each check is a function from a Patient to findings."""
