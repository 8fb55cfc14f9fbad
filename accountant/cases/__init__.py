"""What a plan means: every case that a changed record leaves, and which of them can be the costliest."""
