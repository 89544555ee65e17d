//! mq-server as its clients see it, over real queues and FIFOs.

mod client;
mod copies;
mod grid;
mod hostile;
mod lifecycle;
mod stopping;
mod threads;
mod world;
