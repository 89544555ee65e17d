//! kvcache as a process, beside a real Redis.

#[cfg(test)]
mod differential;
#[cfg(test)]
mod laws;
