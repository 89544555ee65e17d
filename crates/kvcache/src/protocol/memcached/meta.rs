//! `mg`, `ms`, `md`, `ma` and `me`.

use store::{Attributes, Store};
use wire::memcached::{
    Direction, Expiry, KEY_BYTES_MAX, MetaFlags, MetaKey, StoreMode,
    reply::{self, Code, MetaFields},
};

use super::{
    Call, StoreOutcome, StoreRequest,
    arithmetic::ArithmeticError,
    entry::{self, CLAIMED, STALE},
    write_value,
};
use crate::{codec::FETCHED, state::UNIQUE_NUMBER};

/// State of an item before `mg` changed it.
#[derive(Clone, Copy, Debug)]
struct MetaLookup {
    before: Attributes,
    idle_s: u32,
    is_won: bool,
}

impl<S: Store + 'static> Call<'_, '_, S> {
    pub(super) fn meta_get(&mut self, key: &MetaKey<'_>, flags: &MetaFlags<'_>) {
        self.memcached.counters.cmd_meta.add();
        let mut buffer = [0; KEY_BYTES_MAX];
        let bytes = key.bytes(&mut buffer);
        match self.meta_look_up(bytes, flags) {
            Ok(Some(lookup)) => self.meta_hit(bytes, key, flags, lookup),
            Ok(None) => self.meta_miss(bytes, key, flags),
            Err(_) => self.write_line(false, StoreOutcome::NoMemory.word()),
        }
    }

    /// Looks an item up and changes what `mg` changes in it: the expiry, the claim, the unique number.
    fn meta_look_up(&mut self, key: &[u8], flags: &MetaFlags<'_>) -> Result<Option<MetaLookup>, store::OutOfMemory> {
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
        if flags.has(b'c') && after.version & UNIQUE_NUMBER == 0 {
            after.version |= memcached.numbers.next();
        }
        if !flags.has(b'u') {
            after.encoding |= FETCHED;
        }
        if after == (Attributes { encoding: after.encoding, ..before }) {
            // An ordinary read leaves the entry where it is.
            if after != before {
                item.set_encoding(after.encoding);
            }
        } else {
            item.set_attributes(after)?;
        }
        Ok(Some(MetaLookup { before, idle_s, is_won }))
    }

    fn meta_hit(&mut self, bytes: &[u8], key: &MetaKey<'_>, flags: &MetaFlags<'_>, lookup: MetaLookup) {
        let (now, out) = (self.now_ms(), &mut *self.out);
        let counters = &self.memcached.counters;
        let mut item = self.keys.item(bytes);
        let value = if flags.has(b'u') { item.get_untouched() } else { item.get() };
        let Ok(Some(value)) = value else {
            // It cannot be decoded, and has been counted as a miss, or is no string.
            return self.meta_no_value(bytes, key, flags);
        };
        counters.add_get(true);
        if flags.expiry().is_some() {
            counters.add_touch(true);
        }
        let about = reply::Item {
            length: value.bytes.len(),
            flags: value.attributes.flags,
            cas: value.attributes.version & UNIQUE_NUMBER,
            ttl_seconds: entry::ttl_seconds(value.attributes, now),
            idle_seconds: u64::from(lookup.idle_s),
            was_hit: entry::is_fetched(lookup.before),
            is_won: lookup.is_won,
            is_stale: lookup.before.version & STALE != 0,
            is_claimed: lookup.before.version & CLAIMED != 0,
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
        // This counts the miss where all protocols count theirs.
        let _ = self.item(bytes).get();
        self.meta_no_value(bytes, key, flags);
    }

    /// Answers `mg` of a key that has no value to show.
    fn meta_no_value(&mut self, bytes: &[u8], key: &MetaKey<'_>, flags: &MetaFlags<'_>) {
        self.memcached.counters.add_get(false);
        if let Some(expiry) = flags.vivify() {
            return self.vivify(bytes, key, flags, flags.expiry().unwrap_or(expiry));
        }
        if !flags.has(b'q') {
            reply::meta(self.out.inline(), Code::Miss, key, flags, MetaFields::Nothing);
        }
    }

    /// Creates an empty item, which the caller has won the right to fill.
    fn vivify(&mut self, bytes: &[u8], key: &MetaKey<'_>, flags: &MetaFlags<'_>, expiry: Expiry) {
        let now = self.now_ms();
        let number = if flags.has(b'c') { self.memcached.numbers.next() } else { 0 };
        let expires_at = entry::expires_at(expiry, now);
        let attributes =
            Attributes { expires_at: expires_at.unwrap_or(0), version: CLAIMED | number, ..Attributes::default() };
        if expires_at.is_some() {
            let mut item = self.item(bytes);
            if item.set_with_version(b"", attributes).is_err() {
                return self.write_line(false, StoreOutcome::NoMemory.word());
            }
            if let Some(made) = item.attributes().filter(|_| !flags.has(b'u')) {
                entry::mark_fetched(&mut item, made);
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
        let request = StoreRequest {
            mode,
            flags: flags.client_flags(),
            expiry: flags.expiry().unwrap_or(Expiry::Never),
            cas: flags.cas(),
            should_invalidate: flags.has(b'I'),
            should_number: flags.has(b'c'),
            ..StoreRequest::new(value)
        };
        let mut buffer = [0; KEY_BYTES_MAX];
        let (outcome, number) = self.store(key.bytes(&mut buffer), &request);
        let code = match outcome {
            StoreOutcome::Stored if flags.has(b'q') => return,
            StoreOutcome::Stored => Code::Done,
            StoreOutcome::NotStored => Code::NotStored,
            StoreOutcome::Exists => Code::Exists,
            StoreOutcome::NotFound => Code::NotFound,
            StoreOutcome::TooLarge | StoreOutcome::NoMemory => return self.write_line(false, outcome.word()),
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
        memcached.counters.add_delete(found.is_some());
        let code = match found {
            None => Code::NotFound,
            Some(found) if flags.cas().is_some_and(|cas| cas == 0 || cas != found.version & UNIQUE_NUMBER) => {
                Code::Exists
            }
            Some(found) if flags.has(b'I') => {
                let expiry = flags.expiry().map(|expiry| entry::expires_at(expiry, now));
                let expires_at = expiry.unwrap_or(Some(found.expires_at));
                let stale = Attributes { version: STALE | memcached.numbers.next(), ..found };
                let kept = match expires_at {
                    Some(expires_at) => item.set_attributes(Attributes { expires_at, ..stale }).map(|_| ()),
                    None => {
                        item.remove();
                        Ok(())
                    }
                };
                if kept.is_err() {
                    return self.write_line(false, StoreOutcome::NoMemory.word());
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
            (Err(ArithmeticError::NotFound), Some(expiry)) => return self.vivify_number(bytes, key, flags, expiry),
            (Err(ArithmeticError::NotFound), None) => {
                return reply::meta(self.out.inline(), Code::NotFound, key, flags, MetaFields::Nothing);
            }
            (Err(ArithmeticError::Outdated), _) => {
                return reply::meta(self.out.inline(), Code::Exists, key, flags, MetaFields::Nothing);
            }
            (Err(error @ (ArithmeticError::NotANumber | ArithmeticError::NoMemory)), _) => {
                return self.write_line(false, error.line());
            }
        };
        match self.finish_arithmetic(bytes, flags) {
            Err(_) => self.write_line(false, StoreOutcome::NoMemory.word()),
            Ok(_) if flags.has(b'q') => {}
            Ok(attributes) => self.meta_number(key, flags, value, attributes),
        }
    }

    /// Creates the item with its initial number.
    fn vivify_number(&mut self, bytes: &[u8], key: &MetaKey<'_>, flags: &MetaFlags<'_>, expiry: Expiry) {
        let digits = flags.initial().to_string();
        let request = StoreRequest {
            mode: StoreMode::Add,
            expiry,
            should_number: flags.has(b'c'),
            ..StoreRequest::new(digits.as_bytes())
        };
        let (outcome, number) = self.store(bytes, &request);
        if outcome != StoreOutcome::Stored {
            return self.write_line(false, outcome.word());
        }
        let expires_at = entry::expires_at(expiry, self.now_ms()).unwrap_or(0);
        let attributes = Attributes { expires_at, version: number, ..Attributes::default() };
        self.meta_number(key, flags, flags.initial(), attributes);
    }

    /// Sets the expiry and assigns the unique number that `ma` asks for, and returns the attributes.
    fn finish_arithmetic(&mut self, key: &[u8], flags: &MetaFlags<'_>) -> Result<Attributes, store::OutOfMemory> {
        let now = self.now_ms();
        if let Some(expiry) = flags.expiry() {
            entry::set_expiry(&mut self.item(key), expiry, now)?;
        }
        if flags.has(b'c') {
            self.assign_number(key)?;
        }
        Ok(self.item(key).attributes().unwrap_or_default())
    }

    fn meta_number(&mut self, key: &MetaKey<'_>, flags: &MetaFlags<'_>, value: u64, attributes: Attributes) {
        let digits = value.to_string();
        let about = MetaFields::Number {
            cas: attributes.version & UNIQUE_NUMBER,
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
        let Some(attributes) = item.attributes() else { return self.write_line(false, "EN") };
        // A positive number would be a point in time in memcached.
        let exp = entry::ttl_seconds(attributes, now).map_or_else(|| "-1".to_owned(), |ttl| format!("-{ttl}"));
        let la = item.idle_s().unwrap_or(0);
        let cas = attributes.version & UNIQUE_NUMBER;
        let fetch = if entry::is_fetched(attributes) { "yes" } else { "no" };
        let size = item.footprint().unwrap_or(0);
        let out = self.out.inline();
        out.extend_from_slice(b"ME ");
        out.extend_from_slice(key.raw);
        reply::line(out, format!(" exp={exp} la={la} cas={cas} fetch={fetch} cls=1 size={size}"));
    }
}

/// True if less time is left of the item than the client asks for.
fn is_to_be_renewed(recache: Option<Expiry>, attributes: Attributes, now_ms: u64) -> bool {
    let (Some(recache), Some(ttl)) = (recache, entry::ttl_seconds(attributes, now_ms)) else { return false };
    match recache {
        Expiry::Never | Expiry::Immediately => false,
        Expiry::In(seconds) => ttl < u64::from(seconds),
        // As for all times, what is too long for a duration is a point in time.
        Expiry::At(unix) => u64::try_from(unix).is_ok_and(|unix| attributes.expires_at < unix.saturating_mul(1000)),
    }
}
