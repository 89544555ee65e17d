//! Kernel TLS: a connection with much of a file to send has the kernel encrypt from there on, so that the driver can send files
//! by sendfile. What the peer sends is still decrypted here.
//!
//! The first records of such a reply are rustls's own. So whatever it had to say itself has been said when its keys are taken.

use proto::{KernelTls, KernelTlsKeys, KernelTlsState, Now, Outbox, Protocol, Step};
use rustls::{
    ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion, SupportedCipherSuite,
    crypto::cipher::{InboundOpaqueMessage, MessageDecrypter},
    kernel::KernelConnection,
    server::{ServerConnectionData, UnbufferedServerConnection},
};
use sys::ktls::{Cipher, Keys, Version};

use crate::{
    Tls,
    connection::{Connection, Phase},
    engine::{Broken, RECORD_MAX},
    input::Received,
    output::{MOVE_MAX, Sent},
    records, scratch,
};

/// Bytes of files to be sent for which it is worthwhile: a few records.
const FILE_BYTES_MIN: u64 = 64 * 1024;
/// Records in a row that carry no data: rustls's limit of empty ones, too.
const DATALESS_MAX: u8 = 32;

/// Records that are not full in what is given to the kernel at once: a head, the end of a file, and as many on top.
const UNFILLED_RECORDS_MAX: u64 = 4;

const ALERT: u8 = 21;
const CLOSE_NOTIFY: [u8; 2] = [1, 0];
/// Header of a handshake message key_update, and its body: no update is requested in turn (RFC 8446, 4.6.3).
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
const KEY_UPDATE_REQUESTED: [u8; 5] = [24, 0, 0, 1, 1];
/// Descriptions of fatal alerts (RFC 8446, section 6).
const UNEXPECTED_MESSAGE: u8 = 10;
const BAD_RECORD_MAC: u8 = 20;

/// State of a connection whose output the kernel encrypts.
pub(crate) struct KernelSide {
    tls: KernelConnection<ServerConnectionData>,
    decrypter: Box<dyn MessageDecrypter>,
    /// Number of the record that comes next.
    sequence: u64,
    /// Records in a row without data.
    dataless: u8,
    budget: KeyBudget,
    is_closed_by_peer: bool,
}

/// Records that a key is still good for.
struct KeyBudget {
    left: u64,
    half: u64,
}

impl KeyBudget {
    fn new(records_max: u64) -> Self {
        Self { left: records_max, half: records_max / 2 }
    }

    /// Notes `n` bytes that are given to the kernel at once. It fills its records, but for one at each change between memory and
    /// files.
    fn spend(&mut self, n: u64) -> Result<(), Broken> {
        let records = n / RECORD_MAX as u64 + u64::from(n > 0) * UNFILLED_RECORDS_MAX;
        self.left = self.left.checked_sub(records).ok_or(Broken)?;
        Ok(())
    }

    fn is_half_spent(&self) -> bool {
        self.left < self.half
    }
}

/// Content of a record.
enum Opened<'a> {
    Data(&'a [u8]),
    Nothing,
    CloseNotify,
    /// The peer wants new keys of ours, which the kernel cannot change.
    KeysRequested,
    /// It is not acceptable, for this reason.
    Fault(u8),
    /// The peer has given up.
    FatalAlert,
}

impl KernelSide {
    /// Takes the keys of a connection, and queues the step from which on the kernel encrypts.
    fn take_over(tls: UnbufferedServerConnection, out: &mut Outbox) -> Result<Self, Error> {
        let (secrets, tls) = tls.dangerous_into_kernel_connection()?;
        let (sequence, keys) = secrets.tx;
        let option = to_option(tls.protocol_version(), &keys, sequence).ok_or(Error::HandshakeNotComplete)?;
        let (sequence, keys) = secrets.rx;
        let decrypter = decrypter(tls.negotiated_cipher_suite(), keys);
        let budget = KeyBudget::new(records_max(tls.negotiated_cipher_suite()));
        out.push_kernel_tls(KernelTls::Start(KernelTlsKeys::new(option)));
        Ok(Self { tls, decrypter, sequence, dataless: 0, budget, is_closed_by_peer: false })
    }

    pub(crate) fn is_closed_by_peer(&self) -> bool {
        self.is_closed_by_peer
    }

    /// Decrypts a record, which is whole.
    fn open<'a>(&mut self, record: &'a mut [u8]) -> Opened<'a> {
        let Some((&mut [kind, major, minor, ..], fragment)) = record.split_first_chunk_mut::<5>() else {
            return Opened::Fault(UNEXPECTED_MESSAGE);
        };
        let version = ProtocolVersion::from(u16::from_be_bytes([major, minor]));
        let message = InboundOpaqueMessage::new(ContentType::from(kind), version, fragment);
        let is_tls13 = self.tls.protocol_version() == ProtocolVersion::TLSv1_3;
        if is_tls13 && message.typ != ContentType::ApplicationData {
            return Opened::Fault(UNEXPECTED_MESSAGE);
        }
        let Ok(plain) = self.decrypter.decrypt(message, self.sequence) else { return Opened::Fault(BAD_RECORD_MAC) };
        self.sequence += 1;
        if plain.typ == ContentType::ApplicationData && !plain.payload.is_empty() {
            self.dataless = 0;
            return Opened::Data(plain.payload);
        }
        self.dataless += 1;
        match (plain.typ, plain.payload) {
            _ if self.dataless > DATALESS_MAX => Opened::Fault(UNEXPECTED_MESSAGE),
            (ContentType::ApplicationData, _) => Opened::Nothing,
            (ContentType::Alert, [_, 0]) => Opened::CloseNotify,
            // user_canceled, and in TLS 1.2 whatever is a warning.
            (ContentType::Alert, [_, 90]) => Opened::Nothing,
            (ContentType::Alert, [1, _]) if !is_tls13 => Opened::Nothing,
            (ContentType::Alert, _) => Opened::FatalAlert,
            (ContentType::Handshake, payload) if is_tls13 && *payload == KEY_UPDATE => self.update_keys(),
            (ContentType::Handshake, payload) if is_tls13 && *payload == KEY_UPDATE_REQUESTED => Opened::KeysRequested,
            // Renegotiation among them.
            _ => Opened::Fault(UNEXPECTED_MESSAGE),
        }
    }

    fn update_keys(&mut self) -> Opened<'static> {
        let Ok((sequence, keys)) = self.tls.update_rx_secret() else { return Opened::Fault(UNEXPECTED_MESSAGE) };
        self.decrypter = decrypter(self.tls.negotiated_cipher_suite(), keys);
        self.sequence = sequence;
        Opened::Nothing
    }
}

impl<P: Protocol> Connection<P> {
    /// Decides about kernel TLS when there is output. True if the output is to wait for the socket's answer.
    pub(crate) fn prepare_kernel_tls(&mut self, layer: &Tls<P>, out: &mut Outbox) -> bool {
        if !self.may_use_kernel || self.has_ended || self.inner.outbox().unsent_file_bytes() < FILE_BYTES_MIN {
            return false;
        }
        match out.kernel_tls() {
            KernelTlsState::Unused => {
                self.may_use_kernel = self.is_supported(layer);
                if self.may_use_kernel {
                    out.push_kernel_tls(KernelTls::Attach);
                }
                self.may_use_kernel
            }
            KernelTlsState::Requested => true,
            KernelTlsState::Attached => false,
            KernelTlsState::Refused => {
                self.may_use_kernel = false;
                false
            }
        }
    }

    fn is_supported(&self, layer: &Tls<P>) -> bool {
        let Some((engine, support)) = self.engine.as_ref().zip(layer.kernel_support) else { return false };
        let version = engine.tls.protocol_version().and_then(version);
        let cipher = engine.tls.negotiated_cipher_suite().and_then(cipher);
        version.zip(cipher).is_some_and(|(version, cipher)| support.has(version, cipher))
    }

    /// Hands the encryption over to the kernel, if that has been prepared; called when a record has just been encrypted.
    pub(crate) fn switch_to_kernel(&mut self, layer: &Tls<P>, out: &mut Outbox) -> Result<(), Broken> {
        let is_prepared = self.may_use_kernel && out.kernel_tls() == KernelTlsState::Attached;
        // A torn message of the peer is rustls's: then a later record will do.
        let is_ready = |connection: &Self| {
            let Some(engine) = &connection.engine else { return false };
            let has_nothing = engine.held.is_empty() && engine.plain.is_empty() && !engine.is_closed_by_peer;
            has_nothing && !engine.tls.wants_write()
        };
        if !is_prepared || self.inner.outbox().unsent_file_bytes() < FILE_BYTES_MIN || !is_ready(self) {
            return Ok(());
        }
        let Some(engine) = self.engine.take() else { return Ok(()) };
        self.kernel = Some(Box::new(KernelSide::take_over(engine.tls, out).map_err(|_| Broken)?));
        layer.statistics.switched_to_kernel();
        Ok(())
    }

    /// Moves output to the driver as it is, as much as the driver is to hold.
    pub(crate) fn move_plain(&mut self, out: &mut Outbox) -> Result<Option<Sent>, Broken> {
        let Some(kernel) = &mut self.kernel else { return Ok(None) };
        let room = MOVE_MAX.saturating_sub(out.unsent_bytes());
        if room == 0 {
            return Ok(Some(Sent::Nothing));
        }
        let n = out.push_from(self.inner.outbox(), room);
        kernel.budget.spend(n)?;
        // No key can follow it: the connection ends at the next occasion, or in the middle of a reply if there is none.
        self.is_retiring |= kernel.budget.is_half_spent();
        Ok((n > 0).then_some(Sent::Some))
    }

    /// Takes some of `input`; the rest stays with the session outside.
    pub(crate) fn receive_beside_kernel(
        &mut self,
        layer: &Tls<P>,
        input: &[u8],
        step: &mut Step,
        now: Now,
        out: &mut Outbox,
    ) -> Received {
        let Some(kernel) = &self.kernel else { return Received::Failed };
        if self.phase == Phase::Over || kernel.is_closed_by_peer {
            step.consumed += input.len();
            self.is_paused = false;
            return Received::Nothing;
        }
        let whole = records::whole(input);
        let is_ready = self.takes_input() && !out.is_full();
        self.is_paused = whole.len > 0 && !is_ready;
        if whole.len == 0 || !is_ready {
            step.need = if whole.len > 0 { 0 } else { whole.missing };
            return Received::Nothing;
        }
        let mut buffer = scratch::take_records();
        buffer.extend_from_slice(&input[..whole.len]);
        let (done, fault) = self.open_records(layer, &mut buffer, now);
        scratch::keep_records(buffer);
        step.consumed += done;
        match fault {
            None => return Received::Some,
            Some(End::Fault(description)) => self.send_alert([2, description], out),
            Some(End::KeysRequested) => self.send_alert(CLOSE_NOTIFY, out),
            Some(End::FatalAlert) => {}
        }
        self.phase = Phase::Over;
        layer.statistics.failed();
        Received::Failed
    }

    /// Decrypts records for as long as the inner session takes their content. Returns the number of bytes that are done with.
    fn open_records(&mut self, layer: &Tls<P>, records: &mut [u8], now: Now) -> (usize, Option<End>) {
        let mut done = 0;
        while done < records.len() {
            if !self.takes_input() {
                self.is_paused = true;
                break;
            }
            let Self { kernel: Some(kernel), inner, .. } = self else { break };
            let rest = &mut records[done..];
            let len = records::first_len(rest);
            done += len;
            match kernel.open(&mut rest[..len]) {
                Opened::Data(plain) => inner.feed(&layer.inner, plain, now),
                Opened::Nothing => {}
                Opened::CloseNotify => {
                    kernel.is_closed_by_peer = true;
                    return (records.len(), None);
                }
                Opened::KeysRequested => return (records.len(), Some(End::KeysRequested)),
                Opened::Fault(description) => return (records.len(), Some(End::Fault(description))),
                Opened::FatalAlert => return (records.len(), Some(End::FatalAlert)),
            }
        }
        (done, None)
    }

    /// Queues close_notify where the kernel encrypts. True if it does.
    pub(crate) fn say_goodbye_by_kernel(&self, out: &mut Outbox) -> bool {
        if self.kernel.is_some() {
            self.send_alert(CLOSE_NOTIFY, out);
        }
        self.kernel.is_some()
    }

    fn send_alert(&self, alert: [u8; 2], out: &mut Outbox) {
        out.push_kernel_tls(KernelTls::Record { content_type: ALERT, payload: alert.into() });
    }
}

/// Reason to end the connection at once.
enum End {
    Fault(u8),
    KeysRequested,
    FatalAlert,
}

fn version(version: ProtocolVersion) -> Option<Version> {
    let known = [(ProtocolVersion::TLSv1_2, Version::Tls12), (ProtocolVersion::TLSv1_3, Version::Tls13)];
    known.into_iter().find_map(|(protocol, known)| (protocol == version).then_some(known))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "there are hundreds")]
fn cipher(suite: SupportedCipherSuite) -> Option<Cipher> {
    use rustls::CipherSuite as Suite;
    match suite.suite() {
        Suite::TLS13_AES_128_GCM_SHA256
        | Suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | Suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => Some(Cipher::Aes128Gcm),
        Suite::TLS13_AES_256_GCM_SHA384
        | Suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        | Suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => Some(Cipher::Aes256Gcm),
        Suite::TLS13_CHACHA20_POLY1305_SHA256
        | Suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        | Suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => Some(Cipher::Chacha20Poly1305),
        _ => None,
    }
}

/// Returns the number of records that a key of the suite is good for.
fn records_max(suite: SupportedCipherSuite) -> u64 {
    match suite {
        SupportedCipherSuite::Tls13(suite) => suite.common.confidentiality_limit,
        SupportedCipherSuite::Tls12(suite) => suite.common.confidentiality_limit,
    }
}

/// Returns keys as the kernel takes them.
fn to_option(protocol: ProtocolVersion, keys: &ConnectionTrafficSecrets, sequence: u64) -> Option<Box<[u8]>> {
    let version = version(protocol)?;
    let (cipher, key, iv) = match keys {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Cipher::Aes128Gcm, key, iv),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Cipher::Aes256Gcm, key, iv),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (Cipher::Chacha20Poly1305, key, iv),
        _ => return None,
    };
    let mut iv: [u8; 12] = iv.as_ref().try_into().ok()?;
    if version == Version::Tls12 && cipher != Cipher::Chacha20Poly1305 {
        iv = unused_nonce(iv);
    }
    Keys { version, cipher, key: key.as_ref(), iv: &iv, sequence }.to_option()
}

/// Returns the nonce from which the kernel is to count on. A nonce must never come twice: rustls has used the explicit part of
/// this one, xored with the number of each record. The kernel adds one for each record, so that from here it comes to none of those.
fn unused_nonce(mut iv: [u8; 12]) -> [u8; 12] {
    iv[4] ^= 0x80;
    iv[8..].fill(0);
    iv
}

/// Returns what decrypts the peer's records.
fn decrypter(suite: SupportedCipherSuite, keys: ConnectionTrafficSecrets) -> Box<dyn MessageDecrypter> {
    let (ConnectionTrafficSecrets::Aes128Gcm { key, iv }
    | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
    | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv }) = keys
    else {
        unreachable!("rustls makes no others")
    };
    match suite {
        SupportedCipherSuite::Tls13(suite) => suite.aead_alg.decrypter(key, iv),
        SupportedCipherSuite::Tls12(suite) => {
            let fixed = suite.aead_alg.key_block_shape().fixed_iv_len;
            suite.aead_alg.decrypter(key, &iv.as_ref()[..fixed])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_retires_its_connection_at_half_and_ends_it_at_its_limit() {
        let mut budget = KeyBudget::new(1000);
        // 16 full records and four others at a time.
        for _ in 0..25 {
            budget.spend(16 * RECORD_MAX as u64).unwrap();
        }
        assert!(!budget.is_half_spent());
        budget.spend(1).unwrap();
        assert!(budget.is_half_spent());
        for _ in 0..124 {
            budget.spend(100).unwrap();
        }
        assert!(budget.spend(1).is_err());
        let mut chacha = KeyBudget::new(u64::MAX);
        chacha.spend(u64::MAX).unwrap();
        assert!(!chacha.is_half_spent());
    }

    #[test]
    fn the_kernel_begins_at_a_nonce_that_rustls_never_comes_to() {
        for explicit in [0, 1, u64::MAX, u64::MAX >> 1, 0x0123_4567_ffff_ffff] {
            let mut iv = [7; 12];
            iv[4..].copy_from_slice(&explicit.to_be_bytes());
            let next = unused_nonce(iv);
            let next = u64::from_be_bytes(next[4..].try_into().unwrap());
            for count in [0, 1, 1 << 20, u64::from(u32::MAX)] {
                // It would have to be the record of this number.
                let number = (next + count) ^ explicit;
                assert!(number >= 1 << 63, "{explicit:x} {count}");
            }
        }
    }
}
