//! Several connections offered to a protocol at once.

use crate::{Now, Protocol, Session, Step};

/// A connection's session and the bytes its driver lends for it.
pub struct Offer<'a, P: Protocol> {
    pub session: &'a mut Session<P>,
    pub lent: &'a [u8],
}

/// [`Session::feed`] for several connections, through one [`Protocol::on_ready`].
pub fn run_batch<P: Protocol>(protocol: &P, offers: &mut [Offer<'_, P>], now: Now) {
    let mut turns = Vec::with_capacity(offers.len());
    let mut offered = Vec::with_capacity(offers.len());
    for offer in offers.iter_mut() {
        let turn = offer.session.turn(offer.lent, now);
        offered.push(turn.is_some());
        turns.extend(turn);
    }
    protocol.on_ready(&mut turns, now);
    let steps: Vec<Step> = turns.into_iter().map(|turn| turn.step).collect();
    let mut steps = steps.into_iter();
    for (offer, offered) in offers.iter_mut().zip(offered) {
        let step = if offered { steps.next() } else { None };
        offer.session.finish(step.unwrap_or_else(|| Step::open(0)), offer.lent);
    }
}
