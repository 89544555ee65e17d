//! Load in memcached's binary protocol, which loadgen does not speak.

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use anyhow::Context;
use wire::memcached::binary::{
    Opcode, Status,
    client::{self, Reply},
};

const CONNECTIONS: u32 = 4;
/// Requests that are sent before their replies are read.
const PIPELINE: u32 = 4;
const KEYS: u32 = 50;

/// Number of failed requests, by loadgen's names for the classes.
pub(crate) type Failures = BTreeMap<&'static str, u64>;

/// Sends sets and gets in turn over a few connections and checks each reply. A connection that fails costs the requests that
/// wait for their replies, and another one takes its place.
pub(crate) fn run(address: SocketAddr, requests: u32, timeout: Duration) -> anyhow::Result<Failures> {
    thread::scope(|scope| {
        let load = |number| move || connection(address, number, requests / CONNECTIONS, timeout);
        let workers: Vec<_> = (0..CONNECTIONS).map(|number| scope.spawn(load(number))).collect();
        let mut all = Failures::new();
        for worker in workers {
            let failures = worker.join().ok().context("a client of the binary protocol panicked")?;
            failures.into_iter().for_each(|(class, count)| *all.entry(class).or_default() += count);
        }
        Ok(all)
    })
}

fn connection(address: SocketAddr, number: u32, requests: u32, timeout: Duration) -> Failures {
    let mut failures = Failures::new();
    let mut open = None;
    for first in (0..requests).step_by(PIPELINE as usize) {
        let batch = number * requests + first..number * requests + (first + PIPELINE).min(requests);
        let mut left = u64::from(batch.end - batch.start);
        let outcome = match open.take() {
            Some(stream) => Ok(stream),
            None => connect(address, timeout),
        };
        let outcome = outcome.and_then(|mut stream| {
            exchange(&mut stream, batch, &mut left)?;
            Ok(stream)
        });
        match outcome {
            Ok(stream) => open = Some(stream),
            Err(class) => *failures.entry(class).or_default() += left,
        }
    }
    failures
}

fn connect(address: SocketAddr, timeout: Duration) -> Result<TcpStream, &'static str> {
    let stream = TcpStream::connect_timeout(&address, timeout).map_err(|error| {
        if error.kind() == ErrorKind::ConnectionRefused { "connect_refused" } else { "connect_failed" }
    })?;
    stream.set_read_timeout(Some(timeout)).map_err(|_| "connect_failed")?;
    stream.set_write_timeout(Some(timeout)).map_err(|_| "connect_failed")?;
    Ok(stream)
}

fn class_of(error: &io::Error) -> &'static str {
    // Linux says that a socket would block when its time is over.
    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
        return "timeout";
    }
    if error.kind() == ErrorKind::BrokenPipe { "write_error" } else { "reset" }
}

fn key_of(request: u32) -> String {
    format!("key:{}", request / 2 % KEYS)
}

fn value_of(key: &str) -> String {
    format!("value of {key}")
}

/// Sends the requests with these numbers and reads their replies; `left` counts those that are not right yet.
fn exchange(stream: &mut TcpStream, numbers: std::ops::Range<u32>, left: &mut u64) -> Result<(), &'static str> {
    let mut bytes = Vec::new();
    for number in numbers.clone() {
        let key = key_of(number);
        match number % 2 {
            0 => client::set(&mut bytes, number, key.as_bytes(), 0, 0, value_of(&key).as_bytes()),
            _ => client::get(&mut bytes, number, key.as_bytes()),
        }
    }
    stream.write_all(&bytes).map_err(|error| class_of(&error))?;
    let mut input = Vec::new();
    for number in numbers {
        let length = loop {
            if let Some((reply, length)) = client::decode(&input).map_err(|_| "protocol")? {
                check(number, &reply)?;
                break length;
            }
            let mut chunk = [0; 4096];
            match stream.read(&mut chunk).map_err(|error| class_of(&error))? {
                0 => return Err("eof_early"),
                n => input.extend_from_slice(&chunk[..n]),
            }
        };
        input.drain(..length);
        *left -= 1;
    }
    Ok(())
}

fn check(number: u32, reply: &Reply<'_>) -> Result<(), &'static str> {
    let is_set = number.is_multiple_of(2);
    let opcode = if is_set { Opcode::Set } else { Opcode::Get };
    if (reply.opaque, reply.opcode) != (number, opcode.number()) {
        return Err("protocol");
    }
    match reply.status {
        status if status == Status::Success as u16 => {
            match is_set || reply.value == value_of(&key_of(number)).as_bytes() {
                true => Ok(()),
                false => Err("content"),
            }
        }
        // The set before it may have been lost with its connection.
        status if status == Status::NotFound as u16 && !is_set => Ok(()),
        _ => Err("status"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(opcode: Opcode, number: u32, status: Status, value: &[u8]) -> Result<(), &'static str> {
        let (opcode, status) = (opcode.number(), status as u16);
        check(number, &Reply { opcode, status, opaque: number, cas: 1, extras: b"", key: b"", value })
    }

    #[test]
    fn a_wrong_reply_is_told_from_a_right_one() {
        assert_eq!(reply(Opcode::Set, 0, Status::Success, b""), Ok(()));
        assert_eq!(reply(Opcode::Get, 1, Status::Success, b"value of key:0"), Ok(()));
        assert_eq!(reply(Opcode::Get, 1, Status::NotFound, b"Not found"), Ok(()));
        assert_eq!(reply(Opcode::Get, 1, Status::Success, b"value of key:1"), Err("content"));
        assert_eq!(reply(Opcode::Get, 0, Status::Success, b""), Err("protocol"));
        assert_eq!(reply(Opcode::Set, 0, Status::NotFound, b""), Err("status"));
    }
}
