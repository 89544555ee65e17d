//! The binary protocol.
//!
//! Each of its replies to a read or a write has the item's unique number, so items of its clients have one from the
//! start.

use proto::Flow;
use store::Store;
use wire::memcached::{
    Direction, Expiry, StoreMode,
    binary::{
        Command, Head, Request, ReturnedParts, SaslStep, Status,
        reply::{self, error_with_text},
    },
};

use super::{Call, StatFormat, StoreOutcome, StoreRequest, VERSION, arithmetic::ArithmeticError, entry};
use crate::{
    commands::connection::is_same,
    state::{Client, ServerState, UNIQUE_NUMBER},
    value::Value,
};

/// Name of the only mechanism of SASL that is offered (RFC 4616).
const PLAIN: &str = "PLAIN";

impl<S: Store + 'static> Call<'_, '_, S> {
    /// Answers a request of a client that need not authenticate, or has.
    pub(super) fn binary(&mut self, Request { head, is_quiet, cas, command }: &Request<'_>) -> Flow {
        let (head, is_quiet, cas) = (*head, *is_quiet, *cas);
        match *command {
            Command::Get { key, touch, parts } => self.binary_get(head, is_quiet, key, touch, parts),
            Command::Store { mode, key, flags, expiry, value } => {
                let request = StoreRequest {
                    mode,
                    flags,
                    expiry,
                    cas: Some(cas),
                    should_number: !is_quiet,
                    ..StoreRequest::new(value)
                };
                let (outcome, number) = self.store(key, &request);
                match failure(mode, outcome) {
                    None => self.binary_done(head, is_quiet, number),
                    Some(status) => self.binary_error(head, status),
                }
            }
            Command::TooLarge { outdated } => {
                self.note_too_large(outdated);
                self.binary_error(head, Status::TooLarge);
            }
            Command::Delete { key } => self.binary_delete(head, is_quiet, key, cas),
            Command::Arithmetic { key, direction, delta, initial, vivify } => {
                let outcome = self.binary_arithmetic(key, (direction, delta, cas), (initial, vivify), !is_quiet);
                match outcome {
                    Ok(_) if is_quiet => {}
                    Ok((value, number)) => reply::number(self.out.inline(), head, number, value),
                    Err(status) => self.binary_error(head, status),
                }
            }
            Command::Flush { delay } => {
                self.flush(delay);
                self.binary_done(head, is_quiet, 0);
            }
            // The operator chooses what is logged, not a client.
            Command::Noop | Command::Verbosity => self.binary_done(head, false, 0),
            Command::Version => reply::text(self.out.inline(), head, VERSION),
            Command::Stat { name } => self.binary_stats(head, name),
            Command::Quit => {
                self.binary_done(head, is_quiet, 0);
                return Flow::Close;
            }
            // Where there is no password, memcached without SASL is the model.
            Command::Sasl(_) | Command::Unknown => self.binary_error(head, Status::UnknownCommand),
            Command::Malformed(status) => {
                self.binary_error(head, status);
                return Flow::Linger;
            }
        }
        Flow::Open
    }

    fn binary_done(&mut self, head: Head, is_quiet: bool, number: u64) {
        if !is_quiet {
            reply::done(self.out.inline(), head, number);
        }
    }

    fn binary_error(&mut self, head: Head, status: Status) {
        self.is_failed |= status.is_failure();
        let text = if status == Status::NoMemory { "Out of memory allocating item" } else { status.text() };
        error_with_text(self.out.inline(), head, status, text);
    }

    fn binary_get(&mut self, head: Head, is_quiet: bool, key: &[u8], touch: Option<Expiry>, parts: ReturnedParts) {
        let (now, memcached) = (self.now_ms(), self.memcached);
        let Ok(number) = self.assign_number(key) else { return self.binary_error(head, Status::NoMemory) };
        let mut item = self.keys.item(key);
        let mut is_hit = false;
        if let Ok(Some(value)) = item.get() {
            let attributes = value.attributes;
            let returned_key = if parts == ReturnedParts::KeyAndValue { key } else { b"" };
            let length = if parts == ReturnedParts::Nothing { 0 } else { value.bytes.len() };
            let number = number.unwrap_or(0);
            reply::value_header(self.out.inline(), head, number, attributes.flags, returned_key, length);
            if parts != ReturnedParts::Nothing {
                write_bytes(self.out, value);
            }
            entry::mark_fetched(&mut item, attributes);
            is_hit = true;
        }
        match touch {
            Some(expiry) => {
                memcached.counters.add_touch(is_hit);
                // Where there is no memory for another expiry, the item keeps the one it has.
                if is_hit && entry::set_expiry(&mut item, expiry, now).is_err() {
                    memcached.counters.store_no_memory.add();
                }
            }
            None => memcached.counters.add_get(is_hit),
        }
        match parts {
            _ if is_hit || is_quiet => {}
            ReturnedParts::KeyAndValue => reply::missing_key(self.out.inline(), head, key),
            ReturnedParts::Value | ReturnedParts::Nothing => self.binary_error(head, Status::NotFound),
        }
    }

    fn binary_delete(&mut self, head: Head, is_quiet: bool, key: &[u8], cas: u64) {
        let memcached = self.memcached;
        let mut item = self.item(key);
        let number = item.attributes().map(|attributes| attributes.version & UNIQUE_NUMBER);
        match number {
            None => {
                memcached.counters.add_delete(false);
                self.binary_error(head, Status::NotFound);
            }
            Some(number) if cas != 0 && cas != number => self.binary_error(head, Status::Exists),
            Some(_) => {
                item.remove();
                memcached.counters.add_delete(true);
                self.binary_done(head, is_quiet, 0);
            }
        }
    }

    /// Changes a number, or creates it. Returns it and, where it is wanted, its unique number.
    fn binary_arithmetic(
        &mut self,
        key: &[u8],
        (direction, delta, cas): (Direction, u64, u64),
        (initial, vivify): (u64, Option<Expiry>),
        should_number: bool,
    ) -> Result<(u64, u64), Status> {
        match (self.add(key, direction, delta, Some(cas)), vivify) {
            (Ok(value), _) if should_number => {
                let number = self.assign_number(key).map_err(|_| Status::NoMemory)?;
                Ok((value, number.unwrap_or(0)))
            }
            (Ok(value), _) => Ok((value, 0)),
            (Err(ArithmeticError::NotFound), Some(expiry)) => {
                let digits = initial.to_string();
                let request = StoreRequest {
                    mode: StoreMode::Add,
                    expiry,
                    should_number,
                    ..StoreRequest::new(digits.as_bytes())
                };
                let (outcome, number) = self.store(key, &request);
                match outcome {
                    StoreOutcome::Stored => Ok((initial, number)),
                    StoreOutcome::NoMemory => Err(Status::NoMemory),
                    // A key that holds something else than a string is there, and is no number.
                    StoreOutcome::NotStored
                    | StoreOutcome::Exists
                    | StoreOutcome::NotFound
                    | StoreOutcome::TooLarge => Err(Status::NotStored),
                }
            }
            (Err(ArithmeticError::NotFound), None) => Err(Status::NotFound),
            (Err(ArithmeticError::NotANumber), _) => Err(Status::BadDelta),
            (Err(ArithmeticError::Outdated), _) => Err(Status::Exists),
            (Err(ArithmeticError::NoMemory), _) => Err(Status::NoMemory),
        }
    }

    fn binary_stats(&mut self, head: Head, name: &[u8]) {
        let mut words = name.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        self.stat_format = StatFormat::Binary(head);
        match self.statistics(words.next(), words.next()) {
            Ok(_) => reply::done(self.out.inline(), head, 0),
            Err(_) => self.binary_error(head, Status::NotFound),
        }
    }
}

/// Returns the status of a storage command that has not stored, in memcached's choice.
fn failure(mode: StoreMode, outcome: StoreOutcome) -> Option<Status> {
    Some(match (outcome, mode) {
        (StoreOutcome::Stored, _) => return None,
        (StoreOutcome::Exists, _) | (StoreOutcome::NotStored, StoreMode::Add) => Status::Exists,
        (StoreOutcome::NotFound, _) | (StoreOutcome::NotStored, StoreMode::Replace) => Status::NotFound,
        (StoreOutcome::NotStored | StoreOutcome::TooLarge, _) => Status::NotStored,
        (StoreOutcome::NoMemory, _) => Status::NoMemory,
    })
}

/// Writes the bytes of a value; large ones are shared with the store.
fn write_bytes(out: &mut proto::Outbox, value: Value<'_>) {
    match value.shared {
        Some(shared) => out.push_shared(shared),
        None => out.inline().extend_from_slice(&value.bytes),
    }
}

/// Answers a request on a server with a password, where a client must authenticate first: by SASL, with the mechanism
/// PLAIN. Returns `None` if the request has to be answered like any other.
pub(super) fn authenticate<S: Store>(
    state: &ServerState<S>,
    client: &mut Client<S>,
    request: &Request<'_>,
    out: &mut proto::Outbox,
) -> Option<Flow> {
    let password = state.settings.password();
    if client.is_authenticated && password.is_none() {
        return None;
    }
    let (out, is_authenticated) = (out.inline(), client.is_authenticated);
    match request.command {
        Command::Sasl(SaslStep::ListMechanisms) => reply::text(out, request.head, PLAIN),
        Command::Sasl(SaslStep::Start { mechanism, response })
            if mechanism == PLAIN.as_bytes()
                && password.is_none_or(|password| is_right(response, password.as_bytes())) =>
        {
            client.is_authenticated = true;
            reply::text(out, request.head, "Authenticated");
        }
        // PLAIN has one step.
        Command::Sasl(SaslStep::Start { .. } | SaslStep::Continue { .. }) => {
            reply::error(out, request.head, Status::AuthError);
        }
        Command::Version if !is_authenticated => reply::text(out, request.head, VERSION),
        command @ (Command::Get { .. }
        | Command::Store { .. }
        | Command::TooLarge { .. }
        | Command::Delete { .. }
        | Command::Arithmetic { .. }
        | Command::Flush { .. }
        | Command::Noop
        | Command::Version
        | Command::Verbosity
        | Command::Stat { .. }
        | Command::Quit
        | Command::Unknown
        | Command::Malformed(_)) => {
            if is_authenticated {
                return None;
            }
            let status = if let Command::Malformed(status) = command { status } else { Status::AuthError };
            reply::error(out, request.head, status);
            return Some(Flow::Linger);
        }
    }
    Some(Flow::Open)
}

/// True if a response of PLAIN, `[authzid] NUL user NUL password`, is the user `default` with this password.
fn is_right(response: &[u8], password: &[u8]) -> bool {
    let mut parts = response.splitn(3, |&byte| byte == 0);
    let _authorization_identity = parts.next();
    parts.next() == Some(b"default") && parts.next().is_some_and(|given| is_same(password, given))
}
