//! Sources and sinks on real systems. It must never know the control plane.
