"""Pictures to look at: colour maps, previews, overlays, contact sheets, clouds seen from several sides."""
