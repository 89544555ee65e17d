//! Replies that a thread gives at a set time.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    io,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use proto::{Outbox, Promise};

/// A promise and its reply; `None` drops the promise instead.
type DelayedReply = (Promise, Option<Outbox>);

/// Handle of the thread that fulfils promises.
#[derive(Debug)]
pub(crate) struct DelayedReplies(Sender<(Instant, DelayedReply)>);

impl DelayedReplies {
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, replies) = mpsc::channel();
        thread::Builder::new().name("delayed".to_owned()).spawn(move || run(&replies))?;
        Ok(Self(sender))
    }

    pub(crate) fn fulfil(&self, at: Instant, promise: Promise, answer: Option<Outbox>) {
        // The thread outlives every sender. Without it the promise would be dropped, which closes the connection.
        let _ = self.0.send((at, (promise, answer)));
    }
}

fn run(replies: &mpsc::Receiver<(Instant, DelayedReply)>) {
    let mut due = BinaryHeap::<Reverse<(Instant, usize)>>::new();
    let mut waiting = Vec::<Option<DelayedReply>>::new();
    loop {
        let next = due.peek().map(|Reverse((at, _))| at.saturating_duration_since(Instant::now()));
        match replies.recv_timeout(next.unwrap_or(Duration::from_secs(3600))) {
            Ok((at, reply)) => {
                due.push(Reverse((at, waiting.len())));
                waiting.push(Some(reply));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while due.peek().is_some_and(|Reverse((at, _))| *at <= Instant::now()) {
            let Some(Reverse((_, index))) = due.pop() else { break };
            if let Some((promise, Some(answer))) = waiting[index].take() {
                promise.fulfil(answer);
            }
        }
        if due.is_empty() {
            waiting.clear();
        }
    }
}
