"""What `trinity.common.models.mm_utils` imports."""
