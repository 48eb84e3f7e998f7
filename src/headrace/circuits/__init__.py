"""Circuits around dependencies: their handles, calls outside of jobs, how they look, and what is known of them here."""

from headrace.circuits.circuit import Circuit, CircuitApp, CircuitOptions, Circuits, QueueOptions, check_circuits

__all__ = ["Circuit", "CircuitApp", "CircuitOptions", "Circuits", "QueueOptions", "check_circuits"]
