//! Output that no request asked for: lines that a thread pushes into the connections that have subscribed.

use std::{io, sync::Arc, thread};

use bytes::Bytes;
use parking_lot::Mutex;
use proto::{Outbox, Promise, Pusher};

/// Connections that lines are pushed into.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscribers(Arc<Mutex<Vec<Pusher>>>);

impl Subscribers {
    /// Adds a connection, of which at most so many bytes are held that it does not take.
    pub(crate) fn add(&self, bytes_max: usize, out: &mut Outbox) {
        let pusher = Pusher::new(bytes_max);
        out.take_pushes_of(&pusher);
        self.0.lock().push(pusher);
    }

    /// Pushes `count` lines of `len` bytes, on a thread of its own, and then answers with the number of pushes that were
    /// taken.
    pub(crate) fn publish(&self, count: usize, len: usize, promise: Promise) -> io::Result<()> {
        let subscribers = self.clone();
        let publish = move || {
            let mut taken = 0;
            for number in 0..count {
                let line = pushed_line(number, len);
                let pushers = subscribers.0.lock().clone();
                taken += pushers.iter().filter(|pusher| pusher.push(&line).is_ok()).count();
            }
            let mut answer = Outbox::default();
            answer.inline().extend_from_slice(format!("published {taken}\n").as_bytes());
            promise.fulfil(answer);
        };
        thread::Builder::new().name("publish".to_owned()).spawn(publish).map(drop)
    }
}

/// Returns `push NUMBER` and dots, `len` bytes in all or a few more.
fn pushed_line(number: usize, len: usize) -> Bytes {
    let mut line = format!("push {number} ").into_bytes();
    line.resize(line.len().max(len.saturating_sub(1)), b'.');
    line.push(b'\n');
    line.into()
}
