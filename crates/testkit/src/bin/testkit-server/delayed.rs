//! Keeps promises on another thread, when their time has come.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    io,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use proto::{Outbox, Promise};

/// `None`: the promise is dropped instead.
type Errand = (Promise, Option<Outbox>);

/// A thread that answers.
#[derive(Debug)]
pub(crate) struct Later(Sender<(Instant, Errand)>);

impl Later {
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, errands) = mpsc::channel();
        thread::Builder::new().name("later".to_owned()).spawn(move || run(&errands))?;
        Ok(Self(sender))
    }

    pub(crate) fn fulfil(&self, at: Instant, promise: Promise, answer: Option<Outbox>) {
        // The thread outlives every sender; were it gone, the promise would be dropped, which closes the connection.
        let _ = self.0.send((at, (promise, answer)));
    }
}

fn run(errands: &mpsc::Receiver<(Instant, Errand)>) {
    let mut due = BinaryHeap::<Reverse<(Instant, usize)>>::new();
    let mut waiting = Vec::<Option<Errand>>::new();
    loop {
        let next = due.peek().map(|Reverse((at, _))| at.saturating_duration_since(Instant::now()));
        match errands.recv_timeout(next.unwrap_or(Duration::from_secs(3600))) {
            Ok((at, errand)) => {
                due.push(Reverse((at, waiting.len())));
                waiting.push(Some(errand));
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
