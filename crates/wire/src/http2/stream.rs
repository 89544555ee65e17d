//! The streams of a connection that are not closed, and a memory of some that are.

use std::collections::VecDeque;

use super::Urgency;

/// Closed streams that are remembered, to tell a late frame from a wrong one.
const CLOSED_MAX: usize = 128;

/// A request that is being received or answered.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) number: u32,
    /// Bytes of data that the client still takes; negative after it has made its windows smaller.
    pub(super) window: i64,
    /// Bytes received since the client was given more room.
    pub(super) received: u32,
    /// Bytes of the body that are missing, if its length is known.
    pub(super) body_left: Option<u64>,
    /// The request is whole.
    pub(super) is_whole: bool,
    /// Bytes of the response's body that have not been sent.
    pub(super) output: u64,
    pub(super) urgency: Urgency,
}

/// End of a stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Closed {
    /// Both sides were done with it.
    Finished,
    /// Given up by us: what was on its way may still come.
    Reset,
    /// Given up by the client, which must send nothing more.
    Abandoned,
}

#[derive(Debug, Default)]
pub(super) struct Streams {
    /// By number.
    open: Vec<Stream>,
    /// The last ones, newest last.
    closed: VecDeque<(u32, Closed)>,
}

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    fn position(&self, number: u32) -> Result<usize, usize> {
        match self.open.last() {
            // Mostly it is the newest, or one that is about to be opened.
            Some(newest) if newest.number <= number => {
                if newest.number == number {
                    Ok(self.open.len() - 1)
                } else {
                    Err(self.open.len())
                }
            }
            Some(_) => self.open.binary_search_by_key(&number, |stream| stream.number),
            None => Err(0),
        }
    }

    pub(super) fn get(&self, number: u32) -> Option<&Stream> {
        self.open.get(self.position(number).ok()?)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Stream> {
        let at = self.position(number).ok()?;
        self.open.get_mut(at)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.open.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.open.iter_mut()
    }

    /// Adds a stream whose number is higher than all before.
    pub(super) fn open(&mut self, stream: Stream) {
        self.open.push(stream);
    }

    /// Ends a stream, open or never opened.
    pub(super) fn close(&mut self, number: u32, how: Closed) {
        if let Ok(at) = self.position(number) {
            self.open.remove(at);
        }
        if self.closed.len() == CLOSED_MAX {
            self.closed.pop_front();
        }
        self.closed.push_back((number, how));
    }

    /// Returns how a stream ended, if that was not long ago.
    pub(super) fn closed(&self, number: u32) -> Option<Closed> {
        self.closed.iter().rev().find(|&&(closed, _)| closed == number).map(|&(_, how)| how)
    }

    pub(super) fn trim(&mut self) {
        self.open.shrink_to_fit();
        self.closed.shrink_to_fit();
    }
}
