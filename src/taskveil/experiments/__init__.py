"""The paper's figures, and ours beside them."""
