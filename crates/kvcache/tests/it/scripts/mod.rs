//! Scripts: compared with Redis, and their laws on every driver.

mod comparison;
mod laws;
