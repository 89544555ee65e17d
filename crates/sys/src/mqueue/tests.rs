use super::*;

const SIZE: QueueSize = QueueSize { messages_max: 3, message_bytes_max: 64 };

/// A queue of its own, unlinked at the end.
struct Own(QueueName);

impl Own {
    fn new(test: &str) -> Self {
        Self(format!("/quintet-sys-{}-{test}", std::process::id()).parse().unwrap())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = Queue::unlink(&self.0);
    }
}

#[test]
fn names_are_a_slash_and_something() {
    let long = format!("/{}", "x".repeat(255));
    for good in ["/a", "/a.b", &long] {
        assert_eq!(good.parse::<QueueName>().unwrap().to_string(), good);
    }
    for bad in ["", "a", "/", "//a", "/a/b", "/.", "/..", &format!("{long}x"), "/a\0b"] {
        assert!(bad.parse::<QueueName>().is_err(), "{bad:?}");
    }
}

#[test]
fn messages_arrive_by_priority_then_age() {
    let own = Own::new("order");
    let queue = Queue::create(&own.0, SIZE, 0o600).unwrap();
    let sender = Queue::open(&own.0, Access::Send).unwrap();
    assert_eq!(sender.size(), SIZE);
    let mut buffer = [0; 64];
    assert_eq!(queue.try_receive(&mut buffer).unwrap(), None);
    for (message, priority) in [(&b"first"[..], 0), (b"", 0), (&[b'x'; 64], 9)] {
        sender.try_send(message, priority).unwrap();
    }
    assert!(matches!(sender.try_send(b"more", 0), Err(SendError::Full)));
    assert!(matches!(sender.try_send(&[0; 65], 0), Err(SendError::TooLong)));
    assert!(matches!(sender.send_within(b"more", 0, Duration::from_millis(1)), Err(SendError::Full)));
    assert_eq!(queue.len().unwrap(), 3);
    for (bytes, priority) in [(64, 9), (5, 0), (0, 0)] {
        assert_eq!(queue.try_receive(&mut buffer).unwrap(), Some(Received { bytes, priority }));
    }
    assert!(queue.is_empty().unwrap());
    assert_eq!(queue.receive_within(&mut buffer, Duration::from_millis(1)).unwrap(), None);
}

#[test]
fn who_waits_is_woken_by_a_message() {
    let own = Own::new("wake");
    let queue = Queue::create(&own.0, SIZE, 0o600).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| Queue::open(&own.0, Access::Send).unwrap().try_send(b"x", 0).unwrap());
        let received = queue.receive_within(&mut [0; 64], Duration::from_secs(40)).unwrap();
        assert_eq!(received.unwrap().bytes, 1);
    });
}

#[test]
fn a_lock_tells_a_living_owner_from_a_dead_one() {
    let own = Own::new("lock");
    let queue = Queue::create(&own.0, SIZE, 0o622).unwrap();
    assert!(queue.try_lock().unwrap());
    let other = Queue::open(&own.0, Access::Both).unwrap();
    assert_eq!(other.identity().unwrap(), queue.identity().unwrap());
    assert!(!other.try_lock().unwrap());
    queue.unlock().unwrap();
    assert!(other.try_lock().unwrap() && !queue.try_lock().unwrap());
    other.unlock().unwrap();
    assert!(queue.try_lock().unwrap());
    drop(queue);
    assert!(other.try_lock().unwrap());
    Queue::unlink(&own.0).unwrap();
    assert!(matches!(Queue::unlink(&own.0), Err(QueueError::Missing)));
    let again = Queue::create(&own.0, SIZE, 0o600).unwrap();
    assert_ne!(other.identity().unwrap(), again.identity().unwrap());
    assert!(matches!(Queue::create(&own.0, SIZE, 0o600), Err(QueueError::Exists)));
}

#[test]
fn what_is_too_large_names_the_setting() {
    let own = Own::new("large");
    // Above the kernel's own ceilings (HARD_MSGMAX, HARD_MSGSIZEMAX), which bind root as well.
    let huge = QueueSize { messages_max: 70_000, message_bytes_max: 64 };
    let error = Queue::create(&own.0, huge, 0o600).unwrap_err().to_string();
    assert!(error.contains("fs.mqueue.msg_max=70000") && error.contains("fs.mqueue.msgsize_max"), "{error}");
    let heavy = QueueSize { messages_max: 10, message_bytes_max: 1 << 23 };
    match Queue::create(&own.0, heavy, 0o600) {
        Err(error @ QueueError::MemoryLimit { .. }) => {
            assert!(error.to_string().contains("RLIMIT_MSGQUEUE"), "{error}")
        }
        Err(QueueError::TooLarge { .. }) => {} // Without CAP_SYS_RESOURCE the other limit comes first.
        Err(error) => panic!("{error}"),
        // Where the limit of bytes is generous there is nothing to see.
        Ok(_) => assert!(getrlimit(Resource::Msgqueue).current.is_none_or(|bytes| bytes > 80 << 20)),
    }
}
