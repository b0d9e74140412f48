"""The webhook: messages about ends of studies, posted until the receiver accepts them."""
