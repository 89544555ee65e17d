//! mq-server as its clients see it, over real queues and FIFOs.

#[cfg(test)]
mod client;
#[cfg(test)]
mod copies;
#[cfg(test)]
mod dead_disk;
#[cfg(test)]
mod grid;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod shortage;
#[cfg(test)]
mod stopping;
#[cfg(test)]
mod threads;
#[cfg(test)]
mod world;
