//! kvcache as a process, beside a real Redis.

#[cfg(test)]
mod administration;
#[cfg(test)]
mod common;
#[cfg(test)]
mod differential;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod stock;
