"""What each event does to the books: one function per kind of event, by subject."""
