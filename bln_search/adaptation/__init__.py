"""Test-time adaptation: methods, streams, and a network under many arms over a stream."""
