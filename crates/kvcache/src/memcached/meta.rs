//! `mg`, `ms`, `md`, `ma` and `me`.

use store::{Attributes, Store};
use wire::memcached::{
    Direction, Expiry, KEY_BYTES_MAX, MetaFlags, MetaKey, StoreMode,
    reply::{self, Code, MetaFields},
};

use super::{
    Call, Offer, Verdict,
    entry::{self, CLAIMED, NUMBER, STALE},
    numbers::Unchanged,
    write_value,
};
use crate::codec::FETCHED;

/// What `mg` found out about an item before it changed anything.
#[derive(Clone, Copy, Debug)]
struct Seen {
    before: Attributes,
    idle_s: u32,
    is_won: bool,
}

impl<S: Store + 'static> Call<'_, '_, S> {
    pub(super) fn meta_get(&mut self, key: &MetaKey<'_>, flags: &MetaFlags<'_>) {
        self.memcached.counters.cmd_meta.add();
        let mut buffer = [0; KEY_BYTES_MAX];
        let bytes = key.bytes(&mut buffer);
        match self.seen(bytes, flags) {
            Ok(Some(seen)) => self.meta_hit(bytes, key, flags, seen),
            Ok(None) => self.meta_miss(bytes, key, flags),
            Err(_) => self.say(false, Verdict::NoMemory.word()),
        }
    }

    /// Looks at an item and leaves in it what this look does: the new expiry, the claim, the unique number.
    fn seen(&mut self, key: &[u8], flags: &MetaFlags<'_>) -> Result<Option<Seen>, store::OutOfMemory> {
        let (now, memcached) = (self.now_ms(), self.memcached);
        let mut item = self.item(key);
        let Some(before) = item.attributes() else { return Ok(None) };
        let idle_s = item.idle_s().unwrap_or(0);
        let mut after = before;
        if let Some(at) = flags.expiry().and_then(|expiry| entry::expires_at(expiry, now)) {
            after.expires_at = at;
        }
        let is_wanted = before.version & STALE != 0 || is_to_be_renewed(flags.recache(), after, now);
        let is_won = is_wanted && before.version & CLAIMED == 0;
        if is_won {
            after.version |= CLAIMED;
        }
        if flags.has(b'c') && after.version & NUMBER == 0 {
            after.version |= memcached.numbers.next();
        }
        if !flags.has(b'u') {
            after.encoding |= FETCHED;
        }
        if after == (Attributes { encoding: after.encoding, ..before }) {
            // An ordinary read leaves the entry where it is.
            if after != before {
                item.mark(after.encoding);
            }
        } else {
            item.annotate(after)?;
        }
        Ok(Some(Seen { before, idle_s, is_won }))
    }

    fn meta_hit(&mut self, bytes: &[u8], key: &MetaKey<'_>, flags: &MetaFlags<'_>, seen: Seen) {
        let (now, out) = (self.keys.now.unix_ms, &mut *self.out);
        let counters = &self.memcached.counters;
        let mut item = self.keys.item(bytes);
        let value = if flags.has(b'u') { item.look() } else { item.get() };
        let Some(value) = value else {
            // It cannot be decoded, and has been counted as a miss.
            return self.meta_lost(bytes, key, flags);
        };
        counters.got(true);
        if flags.expiry().is_some() {
            counters.touched(true);
        }
        let about = reply::Item {
            length: value.bytes.len(),
            flags: value.attributes.flags,
            cas: value.attributes.version & NUMBER,
            ttl_seconds: entry::ttl_seconds(value.attributes, now),
            idle_seconds: u64::from(seen.idle_s),
            was_hit: entry::was_fetched(seen.before),
            is_won: seen.is_won,
            is_stale: seen.before.version & STALE != 0,
            is_claimed: seen.before.version & CLAIMED != 0,
        };
        match flags.has(b'v') {
            true => {
                reply::meta_value_header(out.inline(), about.length, key, flags, MetaFields::Item(&about));
                write_value(out, value);
            }
            false => reply::meta(out.inline(), Code::Done, key, flags, MetaFields::Item(&about)),
        }
        if flags.expiry().is_some_and(|expiry| entry::expires_at(expiry, now).is_none()) {
            item.remove();
        }
    }

    fn meta_miss(&mut self, bytes: &[u8], key: &MetaKey<'_>, flags: &MetaFlags<'_>) {
        // Counts the miss where all protocols count theirs.
        let _ = self.item(bytes).get();
        self.meta_lost(bytes, key, flags);
    }

    /// There is nothing that could be shown.
    fn meta_lost(&mut self, bytes: &[u8], key: &MetaKey<'_>, flags: &MetaFlags<'_>) {
        self.memcached.counters.got(false);
        if let Some(expiry) = flags.vivify() {
            return self.vivify(bytes, key, flags, flags.expiry().unwrap_or(expiry));
        }
        if !flags.has(b'q') {
            reply::meta(self.out.inline(), Code::Miss, key, flags, MetaFields::Nothing);
        }
    }

    /// Makes an empty item, which the caller has won the right to fill.
    fn vivify(&mut self, bytes: &[u8], key: &MetaKey<'_>, flags: &MetaFlags<'_>, expiry: Expiry) {
        let now = self.now_ms();
        let number = if flags.has(b'c') { self.memcached.numbers.next() } else { 0 };
        let expires_at = entry::expires_at(expiry, now);
        let attributes =
            Attributes { expires_at: expires_at.unwrap_or(0), version: CLAIMED | number, ..Attributes::default() };
        if expires_at.is_some() {
            let mut item = self.item(bytes);
            if item.set_with_version(b"", attributes).is_err() {
                return self.say(false, Verdict::NoMemory.word());
            }
            if let Some(made) = item.attributes().filter(|_| !flags.has(b'u')) {
                entry::fetched(&mut item, made);
            }
        }
        let about = reply::Item {
            cas: number,
            ttl_seconds: entry::ttl_seconds(attributes, now),
            is_won: true,
            ..reply::Item::default()
        };
        match flags.has(b'v') {
            true => {
                reply::meta_value_header(self.out.inline(), 0, key, flags, MetaFields::Item(&about));
                reply::line(self.out.inline(), b"");
            }
            false => reply::meta(self.out.inline(), Code::Done, key, flags, MetaFields::Item(&about)),
        }
    }

    pub(super) fn meta_set(&mut self, key: &MetaKey<'_>, mode: StoreMode, flags: &MetaFlags<'_>, value: &[u8]) {
        self.memcached.counters.cmd_meta.add();
        let offer = Offer {
            mode,
            flags: flags.client_flags(),
            expiry: flags.expiry().unwrap_or(Expiry::Never),
            cas: flags.cas(),
            invalidates: flags.has(b'I'),
            wants_number: flags.has(b'c'),
            ..Offer::of(value)
        };
        let mut buffer = [0; KEY_BYTES_MAX];
        let (verdict, number) = self.keep(key.bytes(&mut buffer), &offer);
        let code = match verdict {
            Verdict::Stored if flags.has(b'q') => return,
            Verdict::Stored => Code::Done,
            Verdict::NotStored => Code::NotStored,
            Verdict::Exists => Code::Exists,
            Verdict::NotFound => Code::NotFound,
            Verdict::TooLarge | Verdict::NoMemory => return self.say(false, verdict.word()),
        };
        reply::meta(self.out.inline(), code, key, flags, MetaFields::Stored { cas: number });
    }

    pub(super) fn meta_delete(&mut self, key: &MetaKey<'_>, flags: &MetaFlags<'_>) {
        let memcached = self.memcached;
        memcached.counters.cmd_meta.add();
        let mut buffer = [0; KEY_BYTES_MAX];
        let now = self.now_ms();
        let mut item = self.keys.item(key.bytes(&mut buffer));
        let found = item.attributes();
        memcached.counters.deleted(found.is_some());
        let code = match found {
            None => Code::NotFound,
            Some(found) if flags.cas().is_some_and(|cas| cas == 0 || cas != found.version & NUMBER) => Code::Exists,
            Some(found) if flags.has(b'I') => {
                let expiry = flags.expiry().map(|expiry| entry::expires_at(expiry, now));
                let expires_at = expiry.unwrap_or(Some(found.expires_at));
                let stale = Attributes { version: STALE | memcached.numbers.next(), ..found };
                let kept = match expires_at {
                    Some(expires_at) => item.annotate(Attributes { expires_at, ..stale }).map(|_| ()),
                    None => {
                        item.remove();
                        Ok(())
                    }
                };
                if kept.is_err() {
                    return self.say(false, Verdict::NoMemory.word());
                }
                Code::Done
            }
            Some(_) => {
                item.remove();
                Code::Done
            }
        };
        if !(code == Code::Done && flags.has(b'q')) {
            reply::meta(self.out.inline(), code, key, flags, MetaFields::Nothing);
        }
    }

    pub(super) fn meta_arithmetic(&mut self, key: &MetaKey<'_>, direction: Direction, flags: &MetaFlags<'_>) {
        self.memcached.counters.cmd_meta.add();
        let mut buffer = [0; KEY_BYTES_MAX];
        let bytes = key.bytes(&mut buffer);
        let value = match (self.add(bytes, direction, flags.delta(), flags.cas()), flags.vivify()) {
            (Ok(value), _) => value,
            (Err(Unchanged::NotFound), Some(expiry)) => return self.vivify_number(bytes, key, flags, expiry),
            (Err(Unchanged::NotFound), None) => {
                return reply::meta(self.out.inline(), Code::NotFound, key, flags, MetaFields::Nothing);
            }
            (Err(Unchanged::Outdated), _) => {
                return reply::meta(self.out.inline(), Code::Exists, key, flags, MetaFields::Nothing);
            }
            (Err(unchanged @ (Unchanged::NotANumber | Unchanged::NoMemory)), _) => {
                return self.say(false, unchanged.line());
            }
        };
        match self.number_seen(bytes, flags) {
            Err(_) => self.say(false, Verdict::NoMemory.word()),
            Ok(_) if flags.has(b'q') => {}
            Ok(attributes) => self.meta_number(key, flags, value, attributes),
        }
    }

    /// Makes the item that was to be counted.
    fn vivify_number(&mut self, bytes: &[u8], key: &MetaKey<'_>, flags: &MetaFlags<'_>, expiry: Expiry) {
        let digits = flags.initial().to_string();
        let offer =
            Offer { mode: StoreMode::Add, expiry, wants_number: flags.has(b'c'), ..Offer::of(digits.as_bytes()) };
        let (verdict, number) = self.keep(bytes, &offer);
        if verdict != Verdict::Stored {
            return self.say(false, verdict.word());
        }
        let expires_at = entry::expires_at(expiry, self.now_ms()).unwrap_or(0);
        let attributes = Attributes { expires_at, version: number, ..Attributes::default() };
        self.meta_number(key, flags, flags.initial(), attributes);
    }

    /// Gives a number that has been counted the expiry and the unique number that were asked for.
    fn number_seen(&mut self, key: &[u8], flags: &MetaFlags<'_>) -> Result<Attributes, store::OutOfMemory> {
        let now = self.now_ms();
        if let Some(expiry) = flags.expiry() {
            entry::expire(&mut self.item(key), expiry, now)?;
        }
        if flags.has(b'c') {
            self.number_of(key)?;
        }
        Ok(self.item(key).attributes().unwrap_or_default())
    }

    fn meta_number(&mut self, key: &MetaKey<'_>, flags: &MetaFlags<'_>, value: u64, attributes: Attributes) {
        let digits = value.to_string();
        let about = MetaFields::Number {
            cas: attributes.version & NUMBER,
            ttl_seconds: entry::ttl_seconds(attributes, self.now_ms()),
        };
        let out = self.out.inline();
        match flags.has(b'v') {
            true => {
                reply::meta_value_header(out, digits.len(), key, flags, about);
                reply::line(out, digits);
            }
            false => reply::meta(out, Code::Done, key, flags, about),
        }
    }

    pub(super) fn meta_debug(&mut self, key: &MetaKey<'_>) {
        self.memcached.counters.cmd_meta.add();
        let now = self.now_ms();
        let mut buffer = [0; KEY_BYTES_MAX];
        let mut item = self.keys.item(key.bytes(&mut buffer));
        let Some(attributes) = item.attributes() else { return self.say(false, "EN") };
        // Without a minus it would be a point in time, as memcached counts.
        let exp = entry::ttl_seconds(attributes, now).map_or_else(|| "-1".to_owned(), |ttl| format!("-{ttl}"));
        let la = item.idle_s().unwrap_or(0);
        let cas = attributes.version & NUMBER;
        let fetch = if entry::was_fetched(attributes) { "yes" } else { "no" };
        let size = item.footprint().unwrap_or(0);
        let out = self.out.inline();
        out.extend_from_slice(b"ME ");
        out.extend_from_slice(key.raw);
        reply::line(out, format!(" exp={exp} la={la} cas={cas} fetch={fetch} cls=1 size={size}"));
    }
}

/// Less is left of the item than the client asks for.
fn is_to_be_renewed(recache: Option<Expiry>, attributes: Attributes, now_ms: u64) -> bool {
    let (Some(recache), Some(ttl)) = (recache, entry::ttl_seconds(attributes, now_ms)) else { return false };
    match recache {
        Expiry::Never | Expiry::Immediately => false,
        Expiry::In(seconds) => ttl < u64::from(seconds),
        // Counted like all times: what is too long for a duration is a point in time.
        Expiry::At(unix) => u64::try_from(unix).is_ok_and(|unix| attributes.expires_at < unix.saturating_mul(1000)),
    }
}
