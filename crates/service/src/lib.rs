//! What every server binary shares: flags, ready line, signals, limits, metrics, logging

#![forbid(unsafe_code)]
