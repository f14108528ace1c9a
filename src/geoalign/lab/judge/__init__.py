"""The pairwise judge: two response files, both orders of every pair, the paper's prompt, win, lose and tie rates."""
