//! Sorted sets: members in the order of their scores and, where these are equal, of their bytes.
//!
//! ```text
//! packed = entry*, in this order
//! entry  = length u8, bytes, score f64 little endian
//! ```
//!
//! A sorted set is packed while it has at most [`PACKED_LEN_MAX`] members that are not longer than [`MEMBER_BYTES_MAX`], the
//! limits that Redis has by default.

mod tree;

use std::{borrow::Cow, cmp::Ordering, ops::Range};

use self::tree::Tree;
use super::{
    Collection, Kind, Object, Text,
    dense::{Dense, Keyed},
    entries::{self, Entries, Entry, MEMBER_BYTES_MAX, PACKED_LEN_MAX},
    member::Member,
};

/// Bytes of a score.
const SCORE: usize = size_of::<f64>();

#[derive(Clone, Debug)]
struct Scored {
    member: Member,
    score: f64,
}

impl Keyed for Scored {
    fn key(&self) -> &[u8] {
        &self.member
    }

    fn heap_bytes(&self) -> usize {
        self.member.heap_bytes()
    }
}

/// Orders two members. Scores are never NaN, and the two zeros are equal.
fn order(score: f64, member: &[u8], other_score: f64, other: &[u8]) -> Ordering {
    score.partial_cmp(&other_score).unwrap_or(Ordering::Equal).then_with(|| member.cmp(other))
}

/// Table of a large sorted set.
#[derive(Clone, Debug, Default)]
pub struct SortedSetTable {
    members: Dense<Scored>,
    ranks: Tree,
}

impl SortedSetTable {
    fn push(&mut self, member: &[u8], score: f64) {
        self.members.push(Scored { member: Member::new(member), score });
        self.ranks.push();
        self.link(self.members.entries().len() - 1);
    }

    fn link(&mut self, position: usize) {
        let Self { members, ranks } = self;
        ranks.link(position as u32, &order_of(members.entries(), position));
    }

    fn unlink(&mut self, position: usize) {
        let Self { members, ranks } = self;
        ranks.unlink(&order_of(members.entries(), position));
    }

    fn set_score(&mut self, position: usize, score: f64) {
        self.unlink(position);
        self.members.entry_mut(position).score = score;
        self.link(position);
    }

    fn remove(&mut self, position: usize) -> f64 {
        self.unlink(position);
        let Self { members, ranks } = self;
        let last = members.entries().len() - 1;
        ranks.pop_into(position as u32, &order_of(members.entries(), last));
        members.swap_remove(position).score
    }
}

/// Compares the entry at a position with others.
fn order_of(entries: &[Scored], position: usize) -> impl Fn(u32) -> Ordering {
    let own = &entries[position];
    move |other| {
        let other = &entries[other as usize];
        order(own.score, &own.member, other.score, &other.member)
    }
}

/// A sorted set that can change.
///
/// A table stays one when members are removed, as in Redis.
#[derive(Clone, Debug)]
pub enum SortedSet {
    Packed(Vec<u8>),
    Table(Box<SortedSetTable>),
}

/// A sorted set that is only read.
#[derive(Clone, Copy, Debug)]
pub enum SortedSetView<'a> {
    Packed(&'a [u8]),
    Table(&'a SortedSetTable),
}

impl Default for SortedSet {
    fn default() -> Self {
        Self::Packed(Vec::new())
    }
}

fn entries_of(bytes: &[u8]) -> Entries<'_, SCORE> {
    Entries::new(bytes, 0)
}

fn score_of(entry: &Entry<'_>) -> f64 {
    entry.trailer.try_into().map_or(0.0, f64::from_le_bytes)
}

impl SortedSet {
    /// Adds a member or changes its score, which is not NaN. Returns the score that it had.
    pub fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
        debug_assert!(!score.is_nan());
        match self {
            Self::Table(table) => {
                let Some(position) = table.members.find(member) else {
                    table.push(member, score);
                    return None;
                };
                let before = table.members.entries()[position].score;
                if before != score {
                    table.set_score(position, score);
                }
                Some(before)
            }
            Self::Packed(bytes) => {
                let before = remove_packed(bytes, member);
                if before.is_none() && (member.len() > MEMBER_BYTES_MAX || entries_of(bytes).count() >= PACKED_LEN_MAX)
                {
                    self.table().push(member, score);
                    return None;
                }
                let is_before =
                    |entry: &Entry<'_>| order(score_of(entry), entry.member, score, member) == Ordering::Less;
                let at = entries_of(bytes).take_while(is_before).last().map_or(0, |entry| entry.range.end);
                // Redis keeps integers as such while a set is small, and knows no negative zero among them.
                entries::insert(bytes, at, member, &(score + 0.0).to_le_bytes());
                before
            }
        }
    }

    /// Packs a table that may be packed: a result that has been put together in one.
    #[must_use]
    pub fn packed_if_small(self) -> Self {
        let view = self.view();
        let mut is_short = view.len() <= PACKED_LEN_MAX;
        view.visit(0..if is_short { PACKED_LEN_MAX } else { 0 }, false, |member, _| {
            is_short &= member.len() <= MEMBER_BYTES_MAX;
        });
        if !is_short {
            return self;
        }
        let mut packed = Self::default();
        view.visit(0..PACKED_LEN_MAX, false, |member, score| {
            packed.insert(member, score);
        });
        packed
    }

    /// Returns the table; makes one if there is none.
    fn table(&mut self) -> &mut SortedSetTable {
        if let Self::Packed(bytes) = self {
            let mut table = Box::<SortedSetTable>::default();
            entries_of(bytes).for_each(|entry| table.push(entry.member, score_of(&entry)));
            *self = Self::Table(table);
        }
        match self {
            Self::Table(table) => table,
            Self::Packed(_) => unreachable!("a table has just been made"),
        }
    }

    /// Removes a member and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Packed(bytes) => remove_packed(bytes, member),
            Self::Table(table) => table.members.find(member).map(|position| table.remove(position)),
        }
    }

    /// Removes the members of these ranks.
    pub fn remove_ranks(&mut self, ranks: Range<usize>) {
        match self {
            Self::Packed(bytes) => {
                let mut removed = entries_of(bytes).skip(ranks.start).take(ranks.len()).map(|entry| entry.range);
                if let Some(first) = removed.next() {
                    let end = removed.last().map_or(first.end, |last| last.end);
                    bytes.drain(first.start..end);
                }
            }
            Self::Table(table) => {
                // Positions change with every removal; members do not.
                let mut removed = Vec::with_capacity(ranks.len());
                visit(table, ranks, false, &mut |scored| removed.push(scored.member.clone()));
                for member in removed {
                    if let Some(position) = table.members.find(&member) {
                        table.remove(position);
                    }
                }
            }
        }
    }
}

impl Collection for SortedSet {
    const KIND: Kind = Kind::SortedSet;

    type View<'a> = SortedSetView<'a>;

    fn view_packed(packed: &[u8]) -> SortedSetView<'_> {
        SortedSetView::Packed(packed)
    }

    fn view(&self) -> SortedSetView<'_> {
        match self {
            Self::Packed(packed) => SortedSetView::Packed(packed),
            Self::Table(table) => SortedSetView::Table(table),
        }
    }

    fn unpack(packed: &[u8]) -> Self {
        Self::Packed(packed.to_vec())
    }

    fn pack(&self) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::Packed(packed) => Some(Cow::Borrowed(packed)),
            Self::Table(_) => None,
        }
    }

    fn write(&self, packed: &mut Vec<u8>) {
        match self {
            Self::Packed(whole) => packed.extend_from_slice(whole),
            Self::Table(table) => table.members.entries().iter().for_each(|Scored { member, score }| {
                Text::Bytes(member).pack(packed);
                packed.extend_from_slice(&score.to_le_bytes());
            }),
        }
    }

    fn parse(packed: &[u8], is_object: bool) -> Option<Self> {
        if !is_object {
            return is_packed(packed).then(|| Self::unpack(packed));
        }
        let (mut table, mut rest) = (Box::<SortedSetTable>::default(), packed);
        while !rest.is_empty() {
            let member = Text::parse(&mut rest)?.to_bytes();
            let (&score, behind) = rest.split_first_chunk()?;
            let score = f64::from_le_bytes(score);
            if score.is_nan() || table.members.find(&member).is_some() {
                return None;
            }
            table.push(&member, score);
            rest = behind;
        }
        Some(Self::Table(table))
    }

    fn is_empty(&self) -> bool {
        self.view().is_empty()
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Packed(packed) => packed.capacity(),
                Self::Table(table) => size_of::<SortedSetTable>() + table.members.bytes() + table.ranks.bytes(),
            }
    }

    fn encoding_name(view: SortedSetView<'_>) -> &'static str {
        match view {
            SortedSetView::Packed(_) => "listpack",
            SortedSetView::Table(_) => "skiplist",
        }
    }

    fn into_object(self) -> Object {
        Object::SortedSet(Box::new(self))
    }

    fn of_object(object: &Object) -> Option<&Self> {
        if let Object::SortedSet(set) = object { Some(set) } else { None }
    }

    fn of_object_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::SortedSet(set) = object { Some(set) } else { None }
    }
}

/// True if the bytes are a packed sorted set in every respect.
fn is_packed(bytes: &[u8]) -> bool {
    let end = entries_of(bytes).last().map_or(0, |entry| entry.range.end);
    let mut members: Vec<&[u8]> = entries_of(bytes).map(|entry| entry.member).collect();
    members.sort_unstable();
    end == bytes.len()
        && members.len() <= PACKED_LEN_MAX
        && members.iter().all(|member| member.len() <= MEMBER_BYTES_MAX)
        && members.is_sorted_by(|a, b| a < b)
        && entries_of(bytes).all(|entry| !score_of(&entry).is_nan())
        && entries_of(bytes).is_sorted_by(|a, b| order(score_of(a), a.member, score_of(b), b.member) == Ordering::Less)
}

fn remove_packed(bytes: &mut Vec<u8>, member: &[u8]) -> Option<f64> {
    let entry = entries_of(bytes).find(|entry| entry.member == member)?;
    let (score, range) = (score_of(&entry), entry.range);
    bytes.drain(range);
    Some(score)
}

fn visit(table: &SortedSetTable, ranks: Range<usize>, is_reverse: bool, visit: &mut impl FnMut(&Scored)) {
    let entries = table.members.entries();
    table.ranks.visit(ranks, is_reverse, &mut |position| visit(&entries[position as usize]));
}

impl SortedSetView<'_> {
    pub fn len(self) -> usize {
        match self {
            Self::Packed(bytes) => entries_of(bytes).count(),
            Self::Table(table) => table.members.entries().len(),
        }
    }

    pub fn is_empty(self) -> bool {
        match self {
            Self::Packed(bytes) => bytes.is_empty(),
            Self::Table(table) => table.members.entries().is_empty(),
        }
    }

    pub fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Packed(bytes) => entries_of(bytes).find(|entry| entry.member == member).map(|entry| score_of(&entry)),
            Self::Table(table) => table.members.find(member).map(|position| table.members.entries()[position].score),
        }
    }

    /// Returns the number of members before this one.
    pub fn rank(self, member: &[u8]) -> Option<usize> {
        let score = self.score(member)?;
        Some(self.partition_point(|other_score, other| order(other_score, other, score, member).is_lt()))
    }

    /// Returns the number of members for which `is_before` holds; it holds for none behind the first for which it does not.
    pub fn partition_point(self, is_before: impl Fn(f64, &[u8]) -> bool) -> usize {
        match self {
            Self::Packed(bytes) => {
                entries_of(bytes).take_while(|entry| is_before(score_of(entry), entry.member)).count()
            }
            Self::Table(table) => {
                let entries = table.members.entries();
                table.ranks.partition_point(|position| {
                    let Scored { member, score } = &entries[position as usize];
                    is_before(*score, member)
                })
            }
        }
    }

    /// Visits the members of a range of ranks, in order or in reverse.
    pub fn visit(self, ranks: Range<usize>, is_reverse: bool, mut visit: impl FnMut(&[u8], f64)) {
        match self {
            Self::Packed(bytes) => {
                let entries = entries_of(bytes).skip(ranks.start).take(ranks.len());
                let mut visit_entry = |entry: Entry<'_>| visit(entry.member, score_of(&entry));
                match is_reverse {
                    false => entries.for_each(visit_entry),
                    true => entries.collect::<Vec<_>>().into_iter().rev().for_each(&mut visit_entry),
                }
            }
            Self::Table(table) => {
                self::visit(table, ranks, is_reverse, &mut |scored| visit(&scored.member, scored.score));
            }
        }
    }

    /// Visits one member at a position below [`SortedSetView::len`], for a random one. Positions say nothing of ranks.
    pub fn nth(self, position: usize, mut visit: impl FnMut(&[u8], f64)) {
        match self {
            Self::Packed(_) => self.visit(position..position + 1, false, visit),
            Self::Table(table) => {
                if let Some(Scored { member, score }) = table.members.entries().get(position) {
                    visit(member, *score);
                }
            }
        }
    }

    /// Visits some members and returns the next cursor; 0 begins and ends. A packed set is visited at once, of a table
    /// `count` members. Whatever is in the set from the first call to the last is visited at least once.
    pub fn scan(self, cursor: u64, count: usize, mut visit: impl FnMut(&[u8], f64)) -> u64 {
        match self {
            Self::Packed(_) => {
                self.visit(0..usize::MAX, false, visit);
                0
            }
            Self::Table(table) => table.members.scan(cursor, count, |scored| visit(&scored.member, scored.score)),
        }
    }
}

#[cfg(test)]
mod tests;
