//! TLS in the kernel (Documentation/networking/tls.rst of Linux): a TCP socket whose output the kernel encrypts.

use std::{
    io, mem,
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::fd::{AsFd, AsRawFd, RawFd},
    ptr,
    sync::OnceLock,
};

use nix::libc;
use rustix::fs::{OFlags, fcntl_getfl};

use crate::socket::is_writable;

/// Versions of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Tls12,
    Tls13,
}

/// Ciphers that a kernel may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    Aes128Gcm,
    Aes256Gcm,
    Chacha20Poly1305,
}

/// Key that a kernel encrypts with, and the number of the record that comes next.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    pub version: Version,
    pub cipher: Cipher,
    /// 16 or 32 bytes, as the cipher wants it.
    pub key: &'a [u8],
    /// Nonce, or its base. With AES-GCM in TLS 1.2 the first four bytes are the implicit part of each nonce, and the others the
    /// explicit part of the next one, from which the kernel counts on.
    pub iv: &'a [u8; 12],
    pub sequence: u64,
}

/// Support for kernel TLS that a machine has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Support {
    combinations: u8,
}

impl Version {
    pub const ALL: [Self; 2] = [Self::Tls12, Self::Tls13];

    /// Number of the version (linux/tls.h).
    fn number(self) -> u16 {
        match self {
            Self::Tls12 => 0x0303,
            Self::Tls13 => 0x0304,
        }
    }
}

impl Cipher {
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::Chacha20Poly1305];

    /// Bytes of a key.
    pub fn key_len(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::Chacha20Poly1305 => 32,
        }
    }

    fn number(self) -> u16 {
        match self {
            Self::Aes128Gcm => libc::TLS_CIPHER_AES_GCM_128,
            Self::Aes256Gcm => libc::TLS_CIPHER_AES_GCM_256,
            Self::Chacha20Poly1305 => libc::TLS_CIPHER_CHACHA20_POLY1305,
        }
    }
}

impl Keys<'_> {
    /// Returns them as the kernel takes them: `tls12_crypto_info_*` of linux/tls.h. `None` if the key has another length.
    pub fn to_option(self) -> Option<Box<[u8]>> {
        let Self { version, cipher, key, iv, sequence } = self;
        if key.len() != cipher.key_len() {
            return None;
        }
        let mut option = Vec::with_capacity(OPTION_BYTES_MAX);
        option.extend(version.number().to_ne_bytes());
        option.extend(cipher.number().to_ne_bytes());
        let (salt, rest) = iv.split_at(4);
        match cipher {
            Cipher::Aes128Gcm | Cipher::Aes256Gcm => [rest, key, salt].map(|part| option.extend(part)),
            Cipher::Chacha20Poly1305 => [&iv[..], key, &[]].map(|part| option.extend(part)),
        };
        option.extend(sequence.to_be_bytes());
        Some(option.into())
    }
}

/// The longest value of the option: that of AES-256-GCM and ChaCha20.
const OPTION_BYTES_MAX: usize = 56;

impl Support {
    /// Asks the kernel, on connections of this process with itself: once, since a confined process may make none later.
    ///
    /// # Errors
    /// It has no TLS, or the module `tls` is not loaded.
    pub fn probe() -> io::Result<Self> {
        static FOUND: OnceLock<Result<Support, io::ErrorKind>> = OnceLock::new();
        let ask = || Self::ask().map_err(|error| error.kind());
        FOUND.get_or_init(ask).map_err(io::Error::from)
    }

    fn ask() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let connect = || {
            let socket = TcpStream::connect(listener.local_addr()?)?;
            let peer = listener.accept()?;
            attach(&socket).map(|()| (socket, peer))
        };
        connect()?;
        let mut support = Self::default();
        for (version, cipher) in Self::all() {
            let (socket, _peer) = connect()?;
            let keys = Keys { version, cipher, key: &[0; 32][..cipher.key_len()], iv: &[0; 12], sequence: 0 };
            if keys.to_option().is_some_and(|option| start(&socket, &option).is_ok()) {
                support.combinations |= Self::bit(version, cipher);
            }
        }
        match support.combinations {
            0 => Err(io::ErrorKind::Unsupported.into()),
            _ => Ok(support),
        }
    }

    pub fn has(self, version: Version, cipher: Cipher) -> bool {
        self.combinations & Self::bit(version, cipher) != 0
    }

    /// Returns support for everything: that of a kernel which a test takes the place of.
    pub fn complete() -> Self {
        Self { combinations: Self::all().fold(0, |all, (version, cipher)| all | Self::bit(version, cipher)) }
    }

    fn all() -> impl Iterator<Item = (Version, Cipher)> {
        Version::ALL.into_iter().flat_map(|version| Cipher::ALL.map(|cipher| (version, cipher)))
    }

    fn bit(version: Version, cipher: Cipher) -> u8 {
        1 << (3 * version as u8 + cipher as u8)
    }
}

/// Makes a TCP socket one that takes keys. Its bytes are still its own.
///
/// # Errors
/// `NotFound` where the kernel has no TLS, `NotConnected` once a side has closed, and others: nothing has changed then.
pub fn attach(socket: &impl AsRawFd) -> io::Result<()> {
    set(socket, libc::SOL_TCP, libc::TCP_ULP, b"tls")
}

/// Has the kernel encrypt what is written from here on; the value comes from [`Keys::to_option`].
///
/// # Errors
/// `InvalidInput` for a cipher that the kernel does not have, and others of setsockopt(2).
pub fn start(socket: &impl AsRawFd, option: &[u8]) -> io::Result<()> {
    set(socket, libc::SOL_TLS, libc::TLS_TX, option)
}

fn set(socket: &impl AsRawFd, level: libc::c_int, name: libc::c_int, value: &[u8]) -> io::Result<()> {
    let len = value.len() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of the value, which are there.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends a record of this content type (RFC 8446, 5.1) on a socket that the kernel encrypts for; on another one its payload.
///
/// # Errors
/// `WouldBlock` while the socket is not ready for more, if it is a non-blocking one; those of sendmsg(2).
pub fn send_record_once(socket: &(impl AsRawFd + AsFd), content_type: u8, payload: &[u8]) -> io::Result<usize> {
    // A blocking call returns when the record has left the layer.
    match fcntl_getfl(socket)?.contains(OFlags::NONBLOCK) {
        true => send_record_now(socket, content_type, payload),
        false => send_record(socket.as_raw_fd(), content_type, payload, 0),
    }
}

/// The same without waiting, on a blocking socket too. The kernel may hold an encrypted record back that the socket had no room
/// for, and forgets it when the socket is closed; so a record is only sent where there is room for that one, too.
pub fn send_record_now(socket: &impl AsRawFd, content_type: u8, payload: &[u8]) -> io::Result<usize> {
    if !is_writable(socket) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    send_record(socket.as_raw_fd(), content_type, payload, libc::MSG_DONTWAIT)
}

/// Room for a control message of one byte, aligned as it has to be.
#[repr(C, align(8))]
struct Control([u8; 24]);

fn send_record(socket: RawFd, content_type: u8, payload: &[u8], flags: libc::c_int) -> io::Result<usize> {
    let mut piece = libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
    let mut control = Control([0; 24]);
    // SAFETY: all zeroes is a valid msghdr: null pointers and no lengths.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    // C libraries differ in the types of lengths.
    message.msg_controllen = control.0.len() as _;
    // SAFETY: the message has room for one header and its byte: CMSG_SPACE(1) is 24.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_TLS;
        (*header).cmsg_type = libc::TLS_SET_RECORD_TYPE;
        (*header).cmsg_len = libc::CMSG_LEN(1) as _;
        ptr::write(libc::CMSG_DATA(header), content_type);
    }
    // SAFETY: the kernel reads the message and what it points to, all of which is there.
    match unsafe { libc::sendmsg(socket, &raw const message, flags | libc::MSG_NOSIGNAL) } {
        n if n >= 0 => Ok(n as usize),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::unix::net::UnixStream};

    use super::*;

    #[test]
    fn keys_lie_where_the_kernel_looks_for_them() {
        let key: Vec<u8> = (1..=32).collect();
        let iv = [101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112];
        let of = |version, cipher: Cipher, len| Keys { version, cipher, key: &key[..len], iv: &iv, sequence: 7 };
        let option = of(Version::Tls13, Cipher::Aes128Gcm, 16).to_option().unwrap();
        assert_eq!(size_of::<libc::tls12_crypto_info_aes_gcm_128>(), option.len());
        assert_eq!(option[..4], [0x04, 0x03, 51, 0]);
        assert_eq!((&option[4..12], &option[12..28], &option[28..32]), (&iv[4..], &key[..16], &iv[..4]));
        assert_eq!(option[32..], [0, 0, 0, 0, 0, 0, 0, 7]);
        let option = of(Version::Tls12, Cipher::Aes256Gcm, 32).to_option().unwrap();
        assert_eq!(
            (option.len(), &option[..4]),
            (size_of::<libc::tls12_crypto_info_aes_gcm_256>(), &[3, 3, 52, 0][..])
        );
        let option = of(Version::Tls12, Cipher::Chacha20Poly1305, 32).to_option().unwrap();
        assert_eq!(option.len(), size_of::<libc::tls12_crypto_info_chacha20_poly1305>());
        assert_eq!((&option[4..16], &option[16..48]), (&iv[..], &key[..]));
        assert!(of(Version::Tls12, Cipher::Aes256Gcm, 16).to_option().is_none());
    }

    /// A kernel either has it, or says in an error that it has not; a unix socket never has.
    #[test]
    fn the_probe_agrees_with_what_a_socket_does() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _peer = listener.accept().unwrap();
        assert_eq!(Support::probe().map(|_| ()).map_err(|error| error.kind()), attach(&socket).map_err(|it| it.kind()));
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert!(attach(&ours).is_err());
        assert!(start(&ours, &[0; 40]).is_err());
    }

    #[test]
    fn a_record_of_a_plain_socket_is_its_payload_and_waits_for_room() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        assert_eq!(send_record_once(&socket, 21, b"ab").unwrap(), 2);
        socket.set_nonblocking(true).unwrap();
        assert_eq!(send_record_once(&socket, 21, b"cd").unwrap(), 2);
        let mut got = [0; 4];
        peer.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"abcd");
        let refused = std::iter::repeat_with(|| send_record_once(&socket, 21, &[0; 4096])).find_map(Result::err);
        assert_eq!(refused.unwrap().kind(), io::ErrorKind::WouldBlock);
        assert!(rustix::io::write(&socket, b"e").is_ok(), "there is room for what the kernel holds back");
    }
}
