"""Pictures to look at: color maps, previews, overlays, contact sheets, clouds seen from several sides."""
