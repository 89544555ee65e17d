use std::os::unix::net::UnixListener;

use super::*;

#[test]
fn addresses_are_read_as_they_are_printed() {
    for text in ["127.0.0.1:8080", "[::1]:0", "unix:/run/x.sock"] {
        assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
    }
    for bad in ["", "8080", "unix:", "127.0.0.1", "127.0.0.1:99999"] {
        assert!(bad.parse::<Address>().is_err(), "{bad:?}");
    }
}

#[test]
fn a_port_in_use_is_refused_even_where_threads_share_it() {
    let first = Listener::bind(&"127.0.0.1:0".parse().unwrap(), Sharing::AmongThreads).unwrap();
    let _second = first.another().unwrap();
    for sharing in [Sharing::Alone, Sharing::AmongThreads] {
        let error = Listener::bind(first.address(), sharing).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{sharing:?}");
    }
}

#[test]
fn a_client_that_comes_before_the_server_is_refused_or_served() {
    let reserve = || {
        let reserved = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        reserved.set_reuse_address(true).unwrap();
        reserved.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        reserved
    };
    let mut served = 0;
    while served < 200 {
        // The listener before may live on for a moment, in a process that another test has begun to start.
        let reserved = reserve();
        let address = reserved.local_addr().unwrap();
        let (is_trying, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let connect = || loop {
            let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            // From the same address it could connect to itself.
            client.bind(&"127.0.0.2:0".parse::<SocketAddr>().unwrap().into()).unwrap();
            if client.connect(&address).is_ok() || is_over.load(Ordering::Acquire) {
                break client;
            }
            is_trying.store(true, Ordering::Release);
        };
        std::thread::scope(|scope| {
            let client = scope.spawn(connect);
            let own = Address::Tcp(address.as_socket().unwrap());
            while !is_trying.load(Ordering::Acquire) && !client.is_finished() {
                std::hint::spin_loop();
            }
            let listener = Listener::bind(&own, Sharing::AmongThreads);
            is_over.store(listener.is_err(), Ordering::Release);
            let client = client.join().unwrap();
            match listener {
                // Nobody listens at a reserved port, so that the kernel may give it to others who ask for any.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                listener => {
                    assert!(client.take_error().unwrap().is_none(), "reset");
                    assert!(listener.unwrap().accept(true).is_ok());
                    served += 1;
                }
            }
        });
    }
}

#[test]
fn connections_inherit_the_buffers_that_were_asked_for() {
    const BYTES: usize = 48 << 10;
    let options = ListenOptions { buffer_bytes: Some(BYTES), ..ListenOptions::default() };
    let address = "127.0.0.1:0".parse().unwrap();
    let first = Listener::bind_with(&address, Sharing::AmongThreads, options).unwrap();
    let another = first.another().unwrap();
    for listener in [&first, &another] {
        let receive = rustix::net::sockopt::socket_recv_buffer_size(listener).unwrap();
        let send = rustix::net::sockopt::socket_send_buffer_size(listener).unwrap();
        assert_eq!((receive, send), (2 * BYTES, 2 * BYTES));
    }
    drop(first); // All connections are for the other one now.
    let _client = std::net::TcpStream::connect(another.address().to_string()).unwrap();
    let socket = another.accept(false).unwrap();
    assert_eq!(rustix::net::sockopt::socket_recv_buffer_size(&socket).unwrap(), 2 * BYTES);
    assert_eq!(rustix::net::sockopt::socket_send_buffer_size(&socket).unwrap(), 2 * BYTES);
}

/// The kernel lets in one more than was asked for (unix(7) does not say so, listen(2) calls it a hint).
#[test]
fn so_many_connections_wait_as_were_asked_for() {
    const BACKLOG: usize = 3;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sock");
    let options = ListenOptions { backlog: BACKLOG as i32, ..ListenOptions::default() };
    let _listener = Listener::bind_with(&Address::Unix(path.clone()), Sharing::Alone, options).unwrap();
    let connect = || {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.connect(&SockAddr::unix(&path).unwrap()).map(|()| socket)
    };
    let waiting: Vec<_> = (0..2 * BACKLOG).map_while(|_| connect().ok()).collect();
    assert_eq!(waiting.len(), BACKLOG + 1);
    assert_eq!(connect().unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn the_file_of_a_socket_has_the_permissions_that_were_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    for mode in [0o600, 0o660, 0o666] {
        let path = directory.path().join(format!("{mode:o}.sock"));
        let options = ListenOptions { socket_mode: Some(mode), ..ListenOptions::default() };
        let _listener = Listener::bind_with(&Address::Unix(path.clone()), Sharing::Alone, options).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        assert!(UnixStream::connect(&path).is_ok());
    }
}

#[test]
fn a_stale_socket_file_is_taken_over_and_a_living_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sock");
    drop(UnixListener::bind(&path).unwrap()); // Leaves its file behind.
    let address = Address::Unix(path.clone());
    let living = Listener::bind(&address, Sharing::Alone).unwrap();
    assert_eq!(Listener::bind(&address, Sharing::Alone).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    assert!(path.exists());
    drop(living);
    assert!(!path.exists());
}
