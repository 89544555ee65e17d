//! Commands as they are counted.

use crate::state::statistics::MEMCACHED_FIRST;
use crate::state::statistics::verbs;

verbs! {
    /// memcached's commands; `bget` is counted as `get`, which it is.
    first = MEMCACHED_FIRST;
    Get = "get" Set = "set" Gets = "gets" Gat = "gat" Gats = "gats" Add = "add" Replace = "replace" Append = "append"
    Prepend = "prepend" Cas = "cas" Touch = "touch" Delete = "delete" Incr = "incr" Decr = "decr"
    MetaGet = "mg" MetaSet = "ms" MetaDelete = "md" MetaArithmetic = "ma" MetaDebug = "me" MetaNoop = "mn"
    FlushAll = "flush_all" Version = "version" Verbosity = "verbosity" Stats = "stats" Quit = "quit"
    Shutdown = "shutdown"
}

/// More bytes than the longest of them has.
const NAME_BYTES_MAX: usize = 10;

impl Verb {
    /// The command that a request begins with; `None`: there is none of this name.
    #[inline]
    pub(super) fn of(request: &[u8]) -> Option<Self> {
        let start = request.iter().position(|&byte| byte != b' ')?;
        let word = &request[start..];
        let end = word.iter().take(NAME_BYTES_MAX).position(|byte| matches!(byte, b' ' | b'\r' | b'\n' | 0))?;
        match &word[..end] {
            b"bget" => Some(Self::Get),
            word => Self::ALL.iter().copied().find(|verb| verb.name().as_bytes() == word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_counted_under_its_first_word() {
        for &verb in Verb::ALL {
            assert!(verb.name().len() < NAME_BYTES_MAX);
            for line in [format!("{}\r\n", verb.name()), format!("  {} a b\n", verb.name())] {
                assert_eq!(Verb::of(line.as_bytes()), Some(verb));
            }
        }
        for (line, verb) in
            [("bget a\r\n", Some(Verb::Get)), ("GET a\r\n", None), ("\r\n", None), ("flush_all_\n", None)]
        {
            assert_eq!(Verb::of(line.as_bytes()), verb, "{line:?}");
        }
    }
}
