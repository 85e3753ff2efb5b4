"""The page (`omnidc web`) and the HTTP service (`omnidc serve`), one process."""
