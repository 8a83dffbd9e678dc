"""What did people say of suggestions? Stored as it comes, reviewed, and turned into training rows."""
