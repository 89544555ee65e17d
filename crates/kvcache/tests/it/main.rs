//! kvcache as a process, on every driver, beside what it must agree with.

#[cfg(test)]
mod differential;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod process;
