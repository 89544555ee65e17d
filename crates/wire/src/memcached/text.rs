//! The parser of command lines.

use memchr::memchr;

use super::{
    Direction, FatalError, KEY_BYTES_MAX, Keys, MetaFlags, MetaKey, Refusal, Request, ShutdownMode, StoreMode,
    number::{signed, unsigned, unsigned32},
    request::{Command, Store},
    words::Words,
};

/// Most words of a meta command, and most words of any other line that are told apart.
const META_WORDS_MAX: usize = 19;
const WORDS_MAX: usize = 23;
/// Most blanks in front of a long line.
const LONG_LINE_INDENT_MAX: usize = 100;
/// Length of the longest value that can be announced.
const LENGTH_MAX: i64 = i32::MAX as i64 - 2;

/// A command line, cut at its end or at a NUL as C reads it.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    text: &'a [u8],
}

impl<'a> Line<'a> {
    /// Makes a line of `bytes`, which end with LF.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        Self { text: memchr(0, text).map_or(text, |nul| &text[..nul]) }
    }
}

/// True if a line that begins like this may be longer than others.
pub(super) fn takes_many_keys(input: &[u8]) -> bool {
    let indent = input.iter().take(LONG_LINE_INDENT_MAX + 1).take_while(|&&byte| byte == b' ').count();
    let line = &input[indent..];
    indent <= LONG_LINE_INDENT_MAX
        && [b"get ".as_slice(), b"gets ", b"gat ", b"gats "].iter().any(|verb| line.starts_with(verb))
}

/// Parses a line.
pub(super) fn command(line: Line<'_>) -> Result<Command<'_>, FatalError> {
    let mut words = Words::new(line.text);
    let verb = words.next().unwrap_or_default();
    let command = match verb {
        b"get" | b"bget" => get(words, false),
        b"gets" => get(words, true),
        b"set" => store(words, StoreMode::Set),
        b"mg" => meta_get(words),
        b"ms" => meta_set(words),
        b"mn" => Ok(Request::MetaNoop.into()),
        b"gat" => get_and_touch(words, false),
        b"gats" => get_and_touch(words, true),
        b"add" => store(words, StoreMode::Add),
        b"replace" => store(words, StoreMode::Replace),
        b"append" => store(words, StoreMode::Append),
        b"prepend" => store(words, StoreMode::Prepend),
        b"cas" => store(words, StoreMode::Cas(0)),
        b"delete" => delete(words),
        b"touch" => touch(words),
        b"incr" => arithmetic(words, Direction::Increment),
        b"decr" => arithmetic(words, Direction::Decrement),
        b"md" => meta_delete(words),
        b"ma" => meta_arithmetic(words),
        b"me" => meta_debug(words),
        b"flush_all" => flush_all(words),
        b"verbosity" => verbosity(words),
        b"version" => Ok(Request::Version.into()),
        b"stats" => Ok(Request::Stats { args: Keys { words } }.into()),
        b"quit" => Ok(Request::Quit.into()),
        b"slabs" => slabs(words),
        b"cache_memlimit" => memory_limit(words),
        b"shutdown" => Ok(Request::Shutdown(shutdown_mode(words)).into()),
        _ => return unknown(line, verb),
    };
    Ok(command.unwrap_or_else(Command::Refused))
}

/// Handles an unknown command. A browser that a hostile page has sent here must not pass its body off as commands.
#[cold]
fn unknown<'a>(line: Line<'a>, verb: &[u8]) -> Result<Command<'a>, FatalError> {
    let last = Words::new(line.text).take(WORDS_MAX).last().unwrap_or_default();
    // Nearly every verb begins with one of these letters, and memcached checks no more then.
    let is_near = match *verb {
        [b'm', _] | [] | [_] => true,
        [first, ..] => b"gsacidt".contains(&first),
    };
    if !is_near && last.starts_with(b"HTTP/") { Err(FatalError::Http) } else { Ok(Command::Refused(Refusal::Unknown)) }
}

type Outcome<'a> = Result<Command<'a>, Refusal>;

impl<'a> From<Request<'a>> for Command<'a> {
    fn from(request: Request<'a>) -> Self {
        Self::Request(request)
    }
}

/// The words of a short command.
struct ShortCommand<'a, const MAX: usize> {
    words: [&'a [u8]; MAX],
    count: usize,
    noreply: bool,
}

impl<'a, const MAX: usize> ShortCommand<'a, MAX> {
    #[inline]
    fn read(words: Words<'a>, min: usize) -> Result<Self, Refusal> {
        let mut short = Self { words: [&[]; MAX], count: 0, noreply: false };
        for word in words {
            *short.words.get_mut(short.count).ok_or(Refusal::Unknown)? = word;
            short.count += 1;
        }
        if short.count < min {
            return Err(Refusal::Unknown);
        }
        short.noreply = short.count > 0 && short.words[short.count - 1] == b"noreply";
        Ok(short)
    }

    /// Returns the request, or silence instead of an error if no reply is wanted.
    #[inline]
    fn or_silence(&self, outcome: Outcome<'a>) -> Outcome<'a> {
        if self.noreply { Ok(outcome.unwrap_or(Command::Silent)) } else { outcome }
    }
}

fn check_key(key: &[u8]) -> Result<&[u8], Refusal> {
    if key.len() > KEY_BYTES_MAX { Err(Refusal::BadCommandLine) } else { Ok(key) }
}

fn get(words: Words<'_>, with_cas: bool) -> Outcome<'_> {
    let mut checked = words;
    check_key(checked.next().ok_or(Refusal::Unknown)?)?;
    checked.try_for_each(|key| check_key(key).map(|_| ()))?;
    Ok(Request::Get { keys: Keys { words }, with_cas }.into())
}

fn get_and_touch(mut words: Words<'_>, with_cas: bool) -> Outcome<'_> {
    let exptime = words.next().ok_or(Refusal::Unknown)?;
    let expiry = signed(exptime).ok_or(Refusal::BadExptime)?.into();
    { words }.try_for_each(|key| check_key(key).map(|_| ()))?;
    Ok(Request::GetAndTouch { expiry, keys: Keys { words }, with_cas }.into())
}

fn store(words: Words<'_>, mode: StoreMode) -> Outcome<'_> {
    let numbers = if matches!(mode, StoreMode::Cas(_)) { 5 } else { 4 };
    let short = ShortCommand::<6>::read(words, numbers)?;
    if short.count > numbers + 1 {
        return Err(Refusal::Unknown);
    }
    short.or_silence(read_store(&short.words, mode, short.noreply))
}

fn read_store<'a>(words: &[&'a [u8]; 6], mode: StoreMode, noreply: bool) -> Outcome<'a> {
    let [key, flags, exptime, length, cas, _] = *words;
    let bad = Refusal::BadCommandLine;
    let key = check_key(key)?;
    let flags = unsigned32(flags).ok_or(bad)?;
    let expiry = signed(exptime).ok_or(bad)?.into();
    let length = value_length(length)?;
    let mode = if matches!(mode, StoreMode::Cas(_)) { StoreMode::Cas(unsigned(cas).ok_or(bad)?) } else { mode };
    Ok(Command::Store { length, store: Store::Text { mode, key, flags, expiry, noreply } })
}

fn value_length(token: &[u8]) -> Result<u64, Refusal> {
    let length = signed(token).filter(|&length| length <= LENGTH_MAX).and_then(|length| u64::try_from(length).ok());
    length.ok_or(Refusal::BadCommandLine)
}

fn delete(words: Words<'_>) -> Outcome<'_> {
    let short = ShortCommand::<3>::read(words, 1)?;
    let [key, second, _] = short.words;
    // Older versions had a time to wait here, of which 0 is still allowed.
    let is_valid = match short.count {
        1 => true,
        2 => second == b"0" || short.noreply,
        _ => second == b"0" && short.noreply,
    };
    // The key `noreply` alone is a key.
    let noreply = short.noreply && short.count > 1;
    let outcome = if is_valid { check_key(key) } else { Err(Refusal::BadDelete) };
    match outcome {
        Ok(key) => Ok(Request::Delete { key, noreply }.into()),
        Err(_) if noreply => Ok(Command::Silent),
        Err(refusal) => Err(refusal),
    }
}

fn touch(words: Words<'_>) -> Outcome<'_> {
    let short = ShortCommand::<3>::read(words, 2)?;
    let [key, exptime, _] = short.words;
    short.or_silence(check_key(key).and_then(|key| {
        let expiry = signed(exptime).ok_or(Refusal::BadExptime)?.into();
        Ok(Request::Touch { key, expiry, noreply: short.noreply }.into())
    }))
}

fn arithmetic(words: Words<'_>, direction: Direction) -> Outcome<'_> {
    let short = ShortCommand::<3>::read(words, 2)?;
    let [key, delta, _] = short.words;
    short.or_silence(check_key(key).and_then(|key| {
        let delta = unsigned(delta).ok_or(Refusal::BadDelta)?;
        Ok(Request::Arithmetic { direction, key, delta, noreply: short.noreply }.into())
    }))
}

fn flush_all(words: Words<'_>) -> Outcome<'_> {
    let short = ShortCommand::<2>::read(words, 0)?;
    let numbers = short.count - usize::from(short.noreply);
    short.or_silence(match numbers {
        0 => Ok(Request::FlushAll { delay: 0.into(), noreply: short.noreply }.into()),
        _ => {
            let delay = signed(short.words[0]).ok_or(Refusal::BadExptime);
            delay.map(|delay| Request::FlushAll { delay: delay.into(), noreply: short.noreply }.into())
        }
    })
}

fn verbosity(words: Words<'_>) -> Outcome<'_> {
    let short = ShortCommand::<2>::read(words, 1)?;
    let level = unsigned32(short.words[0]).ok_or(Refusal::BadCommandLine);
    short.or_silence(level.map(|level| Request::Verbosity { level, noreply: short.noreply }.into()))
}

fn slabs(words: Words<'_>) -> Outcome<'_> {
    let short = ShortCommand::<4>::read(words, 1)?;
    let command = match (short.words[0], short.words[1], short.count) {
        (b"automove", b"ratio", 3 | 4) => is_ratio(short.words[2]).then_some(()).ok_or(Refusal::Unknown),
        (b"automove", level, 2 | 3) => match unsigned32(level) {
            Some(0..=2) => Ok(()),
            Some(_) => Err(Refusal::Unknown),
            None => Err(Refusal::BadCommandLine),
        },
        (b"reassign", _, 3) => Err(Refusal::NoSlabReassignment),
        _ => return Err(Refusal::Unknown),
    };
    Ok(Request::Slabs { command, noreply: short.noreply }.into())
}

/// True for a number with or without a fraction.
fn is_ratio(word: &[u8]) -> bool {
    std::str::from_utf8(word).is_ok_and(|word| word.parse::<f64>().is_ok_and(f64::is_finite))
}

fn memory_limit(words: Words<'_>) -> Outcome<'_> {
    let short = ShortCommand::<2>::read(words, 1)?;
    Ok(Request::CacheMemoryLimit { mebibytes: unsigned32(short.words[0]), noreply: short.noreply }.into())
}

fn shutdown_mode(mut words: Words<'_>) -> ShutdownMode {
    match (words.next(), words.next()) {
        (None, _) => ShutdownMode::Now,
        (Some(b"graceful"), None) => ShutdownMode::Graceful,
        (Some(_), _) => ShutdownMode::Unknown,
    }
}

/// Returns the key of a meta command, unless there are too many words behind it.
fn meta_key<'a>(words: &mut Words<'a>, too_many: Refusal) -> Result<&'a [u8], Refusal> {
    let count = { *words }.take(META_WORDS_MAX).count();
    let key = check_key(words.next().ok_or(Refusal::Unknown)?)?;
    if count + 1 > META_WORDS_MAX { Err(too_many) } else { Ok(key) }
}

fn meta_get(mut words: Words<'_>) -> Outcome<'_> {
    let key = meta_key(&mut words, Refusal::TooManyFlagsToGet)?;
    let (flags, key) = MetaFlags::parse(words, key)?;
    Ok(Request::MetaGet { key, flags }.into())
}

fn meta_set(mut words: Words<'_>) -> Outcome<'_> {
    let has_length = { words }.nth(1).is_some();
    let key = match meta_key(&mut words, Refusal::TooManyFlags) {
        Ok(_) if !has_length => return Err(Refusal::BadCommandLine),
        key => key?,
    };
    let length = value_length(words.next().unwrap_or_default())?;
    let outcome = MetaFlags::parse(words, key).and_then(|(flags, key)| Ok((flags, key, set_mode(&flags)?)));
    Ok(match outcome {
        Ok((flags, key, mode)) => Command::Store { length, store: Store::Meta { key, mode, flags } },
        Err(refusal) => Command::RefusedStore { refusal, length },
    })
}

fn set_mode(flags: &MetaFlags<'_>) -> Result<StoreMode, Refusal> {
    Ok(match (flags.mode(), flags.cas()) {
        (None | Some(b'S' | b'R'), Some(cas)) => StoreMode::Cas(cas),
        (None | Some(b'S'), None) => StoreMode::Set,
        (Some(b'R'), None) => StoreMode::Replace,
        (Some(b'E'), _) => StoreMode::Add,
        (Some(b'A'), _) => StoreMode::Append,
        (Some(b'P'), _) => StoreMode::Prepend,
        (Some(_), _) => return Err(Refusal::BadSetMode),
    })
}

fn meta_delete(mut words: Words<'_>) -> Outcome<'_> {
    let key = meta_key(&mut words, Refusal::TooManyFlags)?;
    let (flags, key) = MetaFlags::parse(words, key).map_err(generic)?;
    Ok(Request::MetaDelete { key, flags }.into())
}

fn meta_arithmetic(mut words: Words<'_>) -> Outcome<'_> {
    let key = meta_key(&mut words, Refusal::TooManyFlags)?;
    let (flags, key) = MetaFlags::parse(words, key).map_err(generic)?;
    let direction = match flags.mode() {
        None | Some(b'I' | b'+') => Direction::Increment,
        Some(b'D' | b'-') => Direction::Decrement,
        Some(_) => return Err(Refusal::BadArithmeticMode),
    };
    Ok(Request::MetaArithmetic { key, direction, flags }.into())
}

/// Converts an error of the flags of `md` and `ma`, which report nearly all of them alike.
fn generic(refusal: Refusal) -> Refusal {
    if refusal == Refusal::OpaqueTooLong { refusal } else { Refusal::InvalidOrDuplicateFlag }
}

fn meta_debug(mut words: Words<'_>) -> Outcome<'_> {
    let raw = check_key(words.next().ok_or(Refusal::BadCommandLine)?)?;
    let is_base64 = words.next() == Some(b"b");
    let key = MetaKey { raw, is_base64 };
    if key.is_well_formed() { Ok(Request::MetaDebug { key }.into()) } else { Err(Refusal::BadCommandLine) }
}
