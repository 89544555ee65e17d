//! Tests of the layer in memory: a session of it on one side, a client of rustls on the other.

#[cfg(test)]
mod configuration;
#[cfg(test)]
mod ends;
#[cfg(test)]
mod fragmentation;
#[cfg(test)]
mod handshakes;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod kernel;
#[cfg(test)]
mod lines;
