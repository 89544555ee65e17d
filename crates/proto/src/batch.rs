//! Several connections offered to a protocol at once.

use crate::{Now, Protocol, Session, Step};

/// A connection's session and the bytes its driver lends for it.
pub struct BatchInput<'a, P: Protocol> {
    pub session: &'a mut Session<P>,
    pub lent: &'a [u8],
}

/// Feeds several connections, as [`Session::feed`] does, through one [`Protocol::on_ready`].
pub fn run_batch<P: Protocol>(protocol: &P, inputs: &mut [BatchInput<'_, P>], now: Now) {
    let mut entries = Vec::with_capacity(inputs.len());
    let mut offered = Vec::with_capacity(inputs.len());
    for input in inputs.iter_mut() {
        if input.session.is_greeting() {
            input.session.feed(protocol, input.lent, now);
            input.lent = &[];
        }
        let entry = input.session.batch_entry(input.lent, now);
        offered.push(entry.is_some());
        entries.extend(entry);
    }
    protocol.on_ready(&mut entries, now);
    let steps: Vec<Step> = entries.into_iter().map(|entry| entry.step).collect();
    let mut steps = steps.into_iter();
    for (input, offered) in inputs.iter_mut().zip(offered) {
        let step = if offered { steps.next() } else { None };
        input.session.finish(protocol, step.unwrap_or_else(|| Step::open(0)), input.lent);
    }
}
