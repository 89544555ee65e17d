//! HRANDFIELD and HSCAN: some fields of a hash.

use store::{
    Store,
    collections::{Field, Hash, HashView},
};
use wire::resp::Version;

use super::{
    call::{Call, parse_integer},
    scan::parse_cursor,
};
use crate::{
    glob,
    reply::{Outcome, Refusal},
};

/// Default COUNT of HSCAN.
const COUNT: i64 = 10;
/// Bytes of the longest request for each field that may be asked for with repetitions.
const BYTES_PER_REPETITION: usize = 64;

// --- HRANDFIELD -------------------------------------------------------------------------------

pub(super) fn hrandfield<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let now = call.unix_ms();
    if call.args.len() == 2 {
        let hash = call.keys.item(call.args[1]).into_collection::<Hash>()?;
        match hash.and_then(|hash| choose(hash, 1, true, now).pop()) {
            Some(field) => call.reply.text(field.name),
            None => call.reply.null(),
        }
        return Ok(());
    }
    let (count, has_values) = parse_count(call)?;
    let hash = call.keys.item(call.args[1]).into_collection::<Hash>()?;
    let fields = hash.map_or_else(Vec::new, |hash| choose(hash, count.unsigned_abs() as usize, count < 0, now));
    let has_pairs = has_values && call.reply.version == Version::Resp3;
    call.reply.array(if has_values && !has_pairs { 2 * fields.len() } else { fields.len() });
    for field in fields {
        if has_pairs {
            call.reply.array(2);
        }
        call.reply.text(field.name);
        if has_values {
            call.reply.text(field.value);
        }
    }
    Ok(())
}

/// Parses the number of fields, negative if they may be repeated, and WITHVALUES.
fn parse_count<S: Store>(call: &Call<'_, '_, S>) -> Result<(i64, bool), Refusal> {
    let count = call.integer(2)?;
    if count == i64::MIN {
        return Err(Refusal::new(format!("ERR value is out of range, value must between -{0} and {0}", i64::MAX)));
    }
    let has_values = call.args.len() > 3;
    if call.args.len() > 4 || has_values && !call.is(3, "WITHVALUES") {
        return Err(Refusal::SYNTAX);
    }
    let repetitions_max = i64::try_from(call.string_bytes_max() / BYTES_PER_REPETITION).unwrap_or(i64::MAX);
    if count < -repetitions_max || has_values && count > i64::MAX / 2 {
        return Err(Refusal::new("ERR value is out of range"));
    }
    Ok((count, has_values))
}

/// Returns fields at random: `count`, some perhaps repeatedly, or at most `count` different ones.
fn choose(hash: HashView<'_>, count: usize, can_repeat: bool, now: u64) -> Vec<Field<'_>> {
    if can_repeat
        && let HashView::Table(_) = hash
        && !hash.has_expiries()
    {
        let len = hash.stored_len();
        return (0..count).filter_map(|_| hash.nth(fastrand::usize(..len))).collect();
    }
    let mut alive: Vec<_> = hash.fields().filter(|field| !field.has_expired(now)).collect();
    if can_repeat {
        let count = if alive.is_empty() { 0 } else { count };
        return (0..count).map(|_| alive[fastrand::usize(..alive.len())]).collect();
    }
    if count < alive.len() {
        fastrand::shuffle(&mut alive);
        alive.truncate(count);
    }
    alive
}

// --- HSCAN ------------------------------------------------------------------------------------

/// Options of HSCAN.
#[derive(Debug)]
struct Options<'a> {
    count: usize,
    pattern: Option<&'a [u8]>,
    has_values: bool,
}

pub(super) fn hscan<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let (cursor, now) = (parse_cursor(call.args[2])?, call.unix_ms());
    let args = call.args;
    let Some(hash) = call.keys.item(args[1]).into_collection::<Hash>()? else {
        call.reply.array(2);
        call.reply.bulk(b"0");
        call.reply.array(0);
        return Ok(());
    };
    let options = Options::parse(&args[3..])?;
    let mut shown = Vec::new();
    let is_match = |name: &[u8]| options.pattern.is_none_or(|pattern| pattern == b"*" || glob::matches(pattern, name));
    let next = hash.scan(cursor, options.count, |field| {
        if !field.has_expired(now) && field.name.with_bytes(is_match) {
            shown.push(field);
        }
    });
    call.reply.array(2);
    call.reply.bulk(itoa::Buffer::new().format(next).as_bytes());
    call.reply.array(if options.has_values { 2 * shown.len() } else { shown.len() });
    for field in shown {
        call.reply.text(field.name);
        if options.has_values {
            call.reply.text(field.value);
        }
    }
    Ok(())
}

impl<'a> Options<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Self, Refusal> {
        let mut options = Self { count: COUNT as usize, pattern: None, has_values: true };
        let mut args = args.iter();
        while let Some(option) = args.next() {
            if option.eq_ignore_ascii_case(b"NOVALUES") {
                options.has_values = false;
                continue;
            }
            let value = args.next().ok_or(Refusal::SYNTAX)?;
            if option.eq_ignore_ascii_case(b"COUNT") {
                let count = parse_integer(value).ok_or(Refusal::NOT_AN_INTEGER)?;
                options.count = usize::try_from(count).ok().filter(|&count| count > 0).ok_or(Refusal::SYNTAX)?;
            } else if option.eq_ignore_ascii_case(b"MATCH") {
                options.pattern = Some(value);
            } else {
                return Err(Refusal::SYNTAX);
            }
        }
        Ok(options)
    }
}
