//! kvcache as a process, on every driver, beside what it must agree with.

#[cfg(test)]
mod process;
