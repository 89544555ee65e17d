//! Cost of caches: bytes for each entry, and nanoseconds for a hit and for an insertion that evicts.
//!
//! `cargo run --release -p fileserver --example caches -- bytes|time [rounds]`

#![allow(clippy::print_stdout, reason = "a report is what it is for")]

mod memory;
mod time;

use std::{env, sync::Arc};

use bytes::Bytes;
use fileserver::cache::Footprint;
use wire::file::FileId;

/// Value of a document's kind and size, 40 bytes: shared bytes, and something shared beside them.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    body: Bytes,
    _origin: Arc<u64>,
}

impl Value {
    fn new(body: Bytes, origin: &Arc<u64>) -> Self {
        Self { body, _origin: Arc::clone(origin) }
    }
}

impl Footprint for Value {
    fn bytes(&self) -> usize {
        self.body.len()
    }

    fn descriptors(&self) -> usize {
        0
    }
}

/// Returns an id of 8 characters, as in the original protocol.
fn id(number: usize) -> FileId {
    FileId::new(format!("{number:08X}").as_bytes()).expect("is an id")
}

fn main() {
    let mut arguments = env::args().skip(1);
    let what = arguments.next();
    let rounds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    match what.as_deref() {
        Some("bytes") => memory::report(),
        Some("time") => time::report(rounds),
        _ => println!("caches bytes | caches time [rounds]"),
    }
}
