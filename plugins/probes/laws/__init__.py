"""Laws of attention, softmax, positions, norms, recurrence, and of what is counted: each with its known answer."""
