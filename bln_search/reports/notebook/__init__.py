"""Tables and reports as HTML for notebooks, without scripts, which notebooks remove or put into frames."""
