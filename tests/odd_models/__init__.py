"""Models and tasks that keep things beside parameters and buffers, which decide the rest of their training."""
