"""What a fitted model says: predictions, explanations, suggestions."""
