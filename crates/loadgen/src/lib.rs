//! A load generator that verifies every reply.
//!
//! This crate never trusts a server: a reply counts only once it has been checked, and every other outcome lands in
//! exactly one error class. It never waits for ever either: every request, connection attempt and retry has a limit.
//!
//! Each protocol is a sans-IO [`protocol::ClientProtocol`]; [`engine`] moves the bytes and keeps the time.

#![forbid(unsafe_code)]

pub mod body;
pub mod ceiling;
pub mod clock;
pub mod compare;
pub mod engine;
pub mod error;
pub mod failure_texts;
pub mod file;
pub mod histogram;
pub mod http;
pub mod instructions;
pub mod key_distribution;
pub mod kv;
pub mod merge;
pub mod mq;
pub mod null;
pub mod otlp;
pub mod output;
pub mod protocol;
pub mod recording;
pub mod request_log;
pub mod result;
pub mod sample;
pub mod stored;
pub mod summary;
pub mod threshold;
pub mod trend;
pub mod units;
pub mod usage;
