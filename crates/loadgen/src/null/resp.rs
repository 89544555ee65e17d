//! Pipelines of RESP commands: `GET` gets the value, `SET` `+OK`, `DEL` `:1`, `PING` `+PONG`, everything else an error.
//!
//! A command that begins like an earlier one, up to the lengths it announces, is as long as that one: its end is found
//! by comparing a few bytes. Only the first of each shape is parsed.

use std::collections::VecDeque;

use memchr::memchr;

use super::{Responder, Unparsable};

/// Limit of a command without its last word, in bytes.
const HEAD_BYTES_MAX: usize = 1 << 20;
/// Number of shapes of commands that one connection may have remembered.
const SHAPES_MAX: usize = 4;
/// Short runs of replies are put together up to this size; longer ones are sent from where they are.
const BURST_BYTES: usize = 64 << 10;
const RUN_BYTES_MIN: usize = 32 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Get,
    Set,
    Del,
    Ping,
    Unknown,
}

/// Replies to each kind, repeated.
#[derive(Debug)]
pub struct RespReplies([Repeated; 5]);

#[derive(Debug)]
struct Repeated {
    /// Enough repetitions for [`BURST_BYTES`] from any phase of a reply on.
    burst: Vec<u8>,
    length: usize,
}

impl RespReplies {
    /// The value is `value_bytes` times the letter `x`.
    #[must_use]
    pub fn new(value_bytes: usize) -> Self {
        let mut value = Vec::new();
        wire::resp::reply::bulk(&mut value, &vec![b'x'; value_bytes]);
        let replies: [&[u8]; 5] =
            [&value, b"+OK\r\n", b":1\r\n", b"+PONG\r\n", b"-ERR the null server knows GET, SET, DEL and PING\r\n"];
        Self(
            replies.map(|reply| Repeated {
                burst: reply.repeat(BURST_BYTES.div_ceil(reply.len()) + 1),
                length: reply.len(),
            }),
        )
    }

    fn get(&self, kind: Kind) -> &Repeated {
        &self.0[kind as usize]
    }
}

/// One connection.
#[derive(Debug, Default)]
pub struct RespResponder {
    shapes: Vec<Shape>,
    /// Beginning of a command that is not complete up to its last word.
    torn: Vec<u8>,
    /// Command whose last word is still arriving: its kind, and the number of bytes that are missing.
    arriving: Option<(Kind, usize)>,
    /// Replies that are pending, in order.
    runs: VecDeque<Run>,
    /// Short runs, put together, and the number of their bytes that have been sent.
    joined: Vec<u8>,
    joined_sent: usize,
}

/// Replies of one kind in a row.
#[derive(Debug)]
struct Run {
    kind: Kind,
    bytes: usize,
    /// Offset in a reply at which it begins.
    phase: usize,
}

/// Common part of commands of one kind and size: all but the bytes of key and value.
#[derive(Debug)]
struct Shape {
    kind: Kind,
    length: usize,
    /// Beginning, up to the length of the second word.
    head: Vec<u8>,
    /// Part from the end of the second word up to the length of the third, and its offset.
    middle: Vec<u8>,
    middle_at: usize,
}

impl Shape {
    #[inline]
    fn fits(&self, input: &[u8]) -> bool {
        let middle_end = self.middle_at + self.middle.len();
        input.len() >= middle_end && input.starts_with(&self.head) && input[self.middle_at..middle_end] == self.middle
    }
}

/// Command that is complete up to its last word.
struct Command {
    kind: Kind,
    length: usize,
    words: u64,
    /// Offsets of the second and the third word.
    starts: [usize; 2],
    /// The length of the second word.
    second_bytes: usize,
}

impl Command {
    /// Parses the command at the start of `input`; `None` while it is incomplete.
    fn parse(input: &[u8]) -> Result<Option<Self>, Unparsable> {
        let Some((words, mut at)) = announced(input, 0, b'*')? else { return Ok(None) };
        let mut command = Self { kind: Kind::Unknown, length: 0, words, starts: [0; 2], second_bytes: 0 };
        for word in 0..words {
            let Some((bytes, start)) = announced(input, at, b'$')? else { return Ok(None) };
            let bytes = usize::try_from(bytes).map_err(|_| Unparsable)?;
            at = start.checked_add(bytes).and_then(|end| end.checked_add(2)).ok_or(Unparsable)?;
            match word {
                0 => match input.get(start..start + bytes) {
                    Some(verb) => command.kind = Kind::from_verb(verb),
                    None => return Ok(None),
                },
                1 => (command.starts[0], command.second_bytes) = (start, bytes),
                2 => command.starts[1] = start,
                _ => {}
            }
        }
        command.length = at;
        Ok(Some(command))
    }

    /// Returns the shape by which such commands are recognised without parsing.
    fn shape(&self, input: &[u8]) -> Option<Shape> {
        let [second, third] = self.starts;
        let (head, middle_at) = (input[..second].to_vec(), second + self.second_bytes);
        let middle = match self.words {
            2 => Vec::new(),
            3 => input[middle_at..third].to_vec(),
            _ => return None,
        };
        // Without a third word nothing behind the head needs to have arrived.
        let middle_at = if middle.is_empty() { second } else { middle_at };
        Some(Shape { kind: self.kind, length: self.length, head, middle, middle_at })
    }
}

impl Kind {
    fn from_verb(verb: &[u8]) -> Self {
        let known = [("get", Self::Get), ("set", Self::Set), ("del", Self::Del), ("ping", Self::Ping)];
        known
            .into_iter()
            .find(|(name, _)| verb.eq_ignore_ascii_case(name.as_bytes()))
            .map_or(Self::Unknown, |(_, kind)| kind)
    }
}

/// Returns the number in a line that begins with `mark`, and the offset of the next line; `None` while it is
/// incomplete.
fn announced(input: &[u8], at: usize, mark: u8) -> Result<Option<(u64, usize)>, Unparsable> {
    let rest = input.get(at..).unwrap_or_default();
    match rest.first() {
        None => return Ok(None),
        Some(&first) if first != mark => return Err(Unparsable),
        Some(_) => {}
    }
    let Some(end) = memchr(b'\n', rest) else { return Ok(None) };
    let number = rest[1..end].strip_suffix(b"\r").and_then(|line| std::str::from_utf8(line).ok());
    let number = number.and_then(|text| text.parse().ok()).ok_or(Unparsable)?;
    Ok(Some((number, at + end + 1)))
}

impl RespResponder {
    fn read(&mut self, mut input: &[u8], replies: &RespReplies) -> Result<u64, Unparsable> {
        let mut requests = 0;
        while !input.is_empty() {
            let known = self.shapes.iter().find(|shape| shape.fits(input)).map(|shape| (shape.kind, shape.length));
            let (kind, length) = match known {
                Some(known) => known,
                None => match Command::parse(input)? {
                    Some(command) => self.learn(&command, input),
                    None if input.len() > HEAD_BYTES_MAX => return Err(Unparsable),
                    None => {
                        self.torn.extend_from_slice(input);
                        return Ok(requests);
                    }
                },
            };
            let Some(rest) = input.get(length..) else {
                self.arriving = Some((kind, length - input.len()));
                return Ok(requests);
            };
            self.add_reply(kind, replies);
            requests += 1;
            input = rest;
        }
        Ok(requests)
    }

    #[cold]
    fn learn(&mut self, command: &Command, input: &[u8]) -> (Kind, usize) {
        if self.shapes.len() < SHAPES_MAX {
            self.shapes.extend(command.shape(input));
        }
        (command.kind, command.length)
    }

    #[inline]
    fn add_reply(&mut self, kind: Kind, replies: &RespReplies) {
        let bytes = replies.get(kind).length;
        match self.runs.back_mut() {
            Some(run) if run.kind == kind => run.bytes += bytes,
            _ => self.runs.push_back(Run { kind, bytes, phase: 0 }),
        }
    }

    /// Joins short runs, unless there is only one.
    fn join(&mut self, replies: &RespReplies) {
        self.joined.clear();
        self.joined_sent = 0;
        if self.runs.len() < 2 {
            return;
        }
        while self.joined.len() < BURST_BYTES
            && let Some(run) = self.runs.pop_front_if(|run| run.bytes < RUN_BYTES_MIN)
        {
            self.joined.extend_from_slice(&replies.get(run.kind).burst[run.phase..run.phase + run.bytes]);
        }
    }
}

impl Responder for RespResponder {
    type Replies = RespReplies;

    fn on_input(&mut self, mut input: &[u8], replies: &RespReplies) -> Result<u64, Unparsable> {
        let mut arrived = 0;
        if let Some((kind, missing)) = self.arriving.take() {
            let Some(rest) = input.get(missing..) else {
                self.arriving = Some((kind, missing - input.len()));
                return Ok(0);
            };
            self.add_reply(kind, replies);
            arrived = 1;
            input = rest;
        }
        if self.torn.is_empty() {
            return Ok(arrived + self.read(input, replies)?);
        }
        let mut whole = std::mem::take(&mut self.torn);
        whole.extend_from_slice(input);
        Ok(arrived + self.read(&whole, replies)?)
    }

    fn front<'a>(&'a mut self, replies: &'a RespReplies) -> &'a [u8] {
        if self.joined_sent == self.joined.len() {
            self.join(replies);
        }
        if !self.joined.is_empty() {
            return &self.joined[self.joined_sent..];
        }
        self.runs.front().map_or(&[], |run| {
            let burst = &replies.get(run.kind).burst;
            &burst[run.phase..burst.len().min(run.phase + run.bytes)]
        })
    }

    fn advance(&mut self, sent: usize, replies: &RespReplies) {
        if !self.joined.is_empty() {
            self.joined_sent += sent;
        } else if let Some(run) = self.runs.front_mut() {
            run.bytes -= sent;
            run.phase = (run.phase + sent) % replies.get(run.kind).length;
            if run.bytes == 0 {
                self.runs.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn command(words: &[&str]) -> String {
        let words = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n{}", words.len(), words.collect::<String>())
    }

    /// Returns the replies when `stream` arrives in pieces and the socket takes `room` bytes at once.
    fn answers(pieces: &[&[u8]], room: usize, value_bytes: usize) -> Result<String, Unparsable> {
        let replies = RespReplies::new(value_bytes);
        let mut responder = RespResponder::default();
        let mut said = Vec::new();
        for piece in pieces {
            responder.on_input(piece, &replies)?;
            loop {
                let front = responder.front(&replies);
                if front.is_empty() {
                    break;
                }
                let sent = front.len().min(room);
                said.extend_from_slice(&front[..sent]);
                responder.advance(sent, &replies);
            }
        }
        Ok(String::from_utf8(said).expect("ASCII"))
    }

    #[test]
    fn each_command_gets_its_reply() {
        let stream = [
            command(&["GET", "a"]),
            command(&["set", "a", "b"]),
            command(&["DEL", "a"]),
            command(&["PING"]),
            command(&["SET", "a", "b", "EX", "10"]),
            command(&["HELLO", "3"]),
            command(&["GET", "another"]),
        ];
        let error = "-ERR the null server knows GET, SET, DEL and PING\r\n";
        let expected = format!("$2\r\nxx\r\n+OK\r\n:1\r\n+PONG\r\n+OK\r\n{error}$2\r\nxx\r\n");
        assert_eq!(answers(&[stream.concat().as_bytes()], 7, 2), Ok(expected));
    }

    #[test]
    fn an_invalid_command_ends_the_connection() {
        for text in ["GET a\r\n", "*1\r\nPING\r\n", "*x\r\n", "*1\r\n$-1\r\n", "*1\n$4\nPING\n"] {
            assert_eq!(answers(&[text.as_bytes()], 1, 1), Err(Unparsable), "{text:?}");
        }
    }

    #[test]
    fn large_values_and_long_runs_are_sent_whole() {
        for (value_bytes, gets, room) in [(1 << 20, 3, 70_001), (5_000, 40, 4_097), (0, 30_000, 1_000_000)] {
            let stream =
                [command(&["SET", "k", "v"]), command(&["GET", "k"]).repeat(gets), command(&["SET", "k", "v"])];
            let value = format!("${value_bytes}\r\n{}\r\n", "x".repeat(value_bytes));
            let expected = format!("+OK\r\n{}+OK\r\n", value.repeat(gets));
            assert!(answers(&[stream.concat().as_bytes()], room, value_bytes).is_ok_and(|said| said == expected));
        }
    }

    proptest! {
        #[test]
        fn replies_do_not_depend_on_tearing(
            commands in prop::collection::vec(prop::sample::select(vec![
                vec!["GET", "key:0001"], vec!["GET", "key:0002"], vec!["GET", "longer-key"], vec!["SET", "key:0001", "*2\r\n$3"],
                vec!["SET", "key:0001", "value"], vec!["SET", "key:0001", ""], vec!["DEL", "x"], vec!["PING"], vec!["MGET", "a", "b", "c"],
            ]), 1..20),
            chunk in 1_usize..60,
            room in 1_usize..30,
        ) {
            let stream: String = commands.iter().map(|words| command(words)).collect();
            let expected: String = commands.iter().map(|words| match words[0] {
                "GET" => "$3\r\nxxx\r\n", "SET" => "+OK\r\n", "DEL" => ":1\r\n", "PING" => "+PONG\r\n",
                _ => "-ERR the null server knows GET, SET, DEL and PING\r\n",
            }).collect();
            let pieces: Vec<_> = stream.as_bytes().chunks(chunk).collect();
            prop_assert_eq!(answers(&pieces, room, 3), Ok(expected.clone()));
            prop_assert_eq!(answers(&[stream.as_bytes()], room, 3), Ok(expected));
        }
    }
}
