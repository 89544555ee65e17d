//! kvcache as a process, on every driver, beside the servers that it must agree with.

#[cfg(test)]
mod administration;
#[cfg(test)]
mod common;
#[cfg(test)]
mod differential;
#[cfg(test)]
mod hashes;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod messages;
#[cfg(test)]
mod process;
#[cfg(test)]
mod scripts;
#[cfg(test)]
mod sets;
#[cfg(test)]
mod stock;
#[cfg(test)]
mod tracking;
