"""What TRL's GRPO trainer and ms-swift's, which is made of it, share."""
