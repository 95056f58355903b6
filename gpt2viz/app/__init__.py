"""What stands on the pages: frame, components, views, course, caches, the address."""
