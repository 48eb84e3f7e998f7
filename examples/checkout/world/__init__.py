"""The world outside the shop: real servers on the loopback interface that misbehave on cue."""
