//! LCS: the longest common subsequence of two values.

use bytes::Bytes;
use store::{Store, collections::WrongType};

use super::call::Call;
use crate::{
    reply::{Outcome, Refusal},
    value::Value,
};

/// Options of LCS.
#[derive(Debug, Default)]
struct Options {
    has_len: bool,
    has_idx: bool,
    has_with_match_len: bool,
    /// Length below which matches are not shown.
    match_len_min: usize,
}

/// Common part of both values, by its first and last position in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Match {
    a: (usize, usize),
    b: (usize, usize),
}

impl Match {
    fn len(self) -> usize {
        self.a.1 - self.a.0 + 1
    }
}

pub(super) fn lcs<S: Store>(call: &mut Call<'_, '_, S>) -> Outcome {
    let is_in_transaction = call.keys.has_locked_all();
    call.lock_all();
    let mut read = |index: usize| match call.item(index).get() {
        Ok(value) => Ok(value.map_or_else(Bytes::new, Value::into_bytes)),
        Err(WrongType) => Err(Refusal::new("ERR The specified keys must contain string values")),
    };
    let (a, b) = (read(1)?, read(2)?);
    if !is_in_transaction {
        // The comparison may take long, and needs nothing but the copies.
        call.keys.unlock();
    }
    let options = parse(call)?;
    let table = Table::new(&a, &b, call.string_bytes_max())?;
    if options.has_len {
        call.reply.count(table.len());
    } else if options.has_idx {
        show_positions(call, &options, &table);
    } else {
        call.reply.bulk(&table.sequence());
    }
    Ok(())
}

fn parse<S: Store>(call: &Call<'_, '_, S>) -> Result<Options, Refusal> {
    let mut options = Options::default();
    let mut at = 3;
    while at < call.args.len() {
        if call.is(at, "IDX") {
            options.has_idx = true;
        } else if call.is(at, "LEN") {
            options.has_len = true;
        } else if call.is(at, "WITHMATCHLEN") {
            options.has_with_match_len = true;
        } else if call.is(at, "MINMATCHLEN") && at + 1 < call.args.len() {
            at += 1;
            options.match_len_min = usize::try_from(call.integer(at)?).unwrap_or(0);
        } else {
            return Err(Refusal::SYNTAX);
        }
        at += 1;
    }
    if options.has_len && options.has_idx {
        return Err(Refusal::new("ERR If you want both the length and indexes, please just use IDX."));
    }
    Ok(options)
}

fn show_positions<S: Store>(call: &mut Call<'_, '_, S>, options: &Options, table: &Table<'_>) {
    let mut matches = table.matches();
    matches.retain(|found| found.len() >= options.match_len_min);
    let reply = &mut call.reply;
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(matches.len());
    for found in matches {
        reply.array(if options.has_with_match_len { 3 } else { 2 });
        for (first, last) in [found.a, found.b] {
            reply.array(2);
            reply.count(first);
            reply.count(last);
        }
        if options.has_with_match_len {
            reply.count(found.len());
        }
    }
    reply.bulk(b"len");
    reply.count(table.len());
}

/// Lengths of the longest common subsequences of all prefixes of `a` (rows) and of `b` (columns).
struct Table<'v> {
    a: &'v [u8],
    b: &'v [u8],
    lens: Vec<u32>,
}

impl<'v> Table<'v> {
    /// # Errors
    /// The table would take more than `bytes_max`, or more memory than there is.
    fn new(a: &'v [u8], b: &'v [u8], bytes_max: usize) -> Result<Self, Refusal> {
        let cells = (a.len() + 1).checked_mul(b.len() + 1);
        let cells = cells.filter(|&cells| cells <= bytes_max / size_of::<u32>()).ok_or_else(|| {
            Refusal::new("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")
        })?;
        let mut lens = Vec::new();
        lens.try_reserve_exact(cells)
            .map_err(|_| Refusal::new("ERR Insufficient memory, failed allocating transient memory for LCS"))?;
        lens.resize(cells, 0);
        let mut table = Self { a, b, lens };
        table.fill();
        Ok(table)
    }

    fn fill(&mut self) {
        let width = self.b.len() + 1;
        for (row, byte) in self.a.iter().enumerate() {
            let (above, here) = self.lens[row * width..][..2 * width].split_at_mut(width);
            for (column, other) in self.b.iter().enumerate() {
                here[column + 1] = if byte == other { above[column] + 1 } else { above[column + 1].max(here[column]) };
            }
        }
    }

    fn at(&self, row: usize, column: usize) -> u32 {
        self.lens[row * (self.b.len() + 1) + column]
    }

    fn len(&self) -> usize {
        self.at(self.a.len(), self.b.len()) as usize
    }

    /// Returns the positions of one longest common subsequence in both values, from the last to the first.
    fn walk(&self) -> impl Iterator<Item = (usize, usize)> {
        let (mut row, mut column) = (self.a.len(), self.b.len());
        std::iter::from_fn(move || {
            while row > 0 && column > 0 {
                if self.a[row - 1] == self.b[column - 1] {
                    (row, column) = (row - 1, column - 1);
                    return Some((row, column));
                }
                match self.at(row - 1, column) > self.at(row, column - 1) {
                    true => row -= 1,
                    false => column -= 1,
                }
            }
            None
        })
    }

    fn sequence(&self) -> Vec<u8> {
        let mut sequence: Vec<u8> = self.walk().map(|(row, _)| self.a[row]).collect();
        sequence.reverse();
        sequence
    }

    /// Returns the same subsequence in parts without a gap in either value, the last part first.
    fn matches(&self) -> Vec<Match> {
        let mut matches: Vec<Match> = Vec::new();
        for (a, b) in self.walk() {
            match matches.last_mut() {
                Some(last) if last.a.0 == a + 1 && last.b.0 == b + 1 => (last.a.0, last.b.0) = (a, b),
                _ => matches.push(Match { a: (a, a), b: (b, b) }),
            }
        }
        matches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_documentation_is_answered() {
        let table = Table::new(b"ohmytext", b"mynewtext", 1 << 20).unwrap();
        assert_eq!(table.sequence(), b"mytext");
        assert_eq!(table.len(), 6);
        assert_eq!(table.matches(), [Match { a: (4, 7), b: (5, 8) }, Match { a: (2, 3), b: (0, 1) }]);
    }

    #[test]
    fn a_table_larger_than_the_limit_is_refused() {
        assert!(Table::new(&[0; 100], &[0; 100], 101 * 101 * 4).is_ok());
        assert!(Table::new(&[0; 100], &[0; 100], 101 * 101 * 4 - 1).is_err());
        assert_eq!(Table::new(b"", b"abc", 1 << 10).unwrap().sequence(), b"");
    }
}
