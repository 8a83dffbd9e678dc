"""Labels after training: added, renamed, merged, retired, restored; the log replayed over a trained model."""
