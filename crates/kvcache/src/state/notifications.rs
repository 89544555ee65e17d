//! Keyspace notifications: which changes of keys are published as messages.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use super::channels::Channels;

/// Class of an event, by the letter that `notify-keyspace-events` has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum EventClass {
    /// `g`: commands on keys of any type.
    Generic = 1 << 2,
    /// `$`
    String = 1 << 3,
    /// `h`
    Hash = 1 << 4,
    /// `s`
    Set = 1 << 5,
    /// `z`
    SortedSet = 1 << 6,
    /// `x`
    Expired = 1 << 7,
    /// `e`
    Evicted = 1 << 8,
    /// `m`: a key has been asked for that does not exist.
    KeyMiss = 1 << 12,
    /// `n`: there is a key that did not exist.
    New = 1 << 13,
}

/// `K`: messages to `__keyspace@DB__:KEY`.
const KEYSPACE: u32 = 1 << 0;
/// `E`: messages to `__keyevent@DB__:EVENT`.
const KEYEVENT: u32 = 1 << 1;

/// Letters of the classes that `A` stands for, in Redis's order. Lists (`l`), streams (`t`) and modules (`d`), of which there are none here,
/// belong to `A`, too.
const CLASSES: [(u8, u32); 10] = [
    (b'g', 1 << 2),
    (b'$', 1 << 3),
    (b'l', 1 << 9),
    (b's', 1 << 5),
    (b'h', 1 << 4),
    (b'z', 1 << 6),
    (b'x', 1 << 7),
    (b'e', 1 << 8),
    (b't', 1 << 10),
    (b'd', 1 << 11),
];

/// Setting `notify-keyspace-events`, and the channels that events are published to.
#[derive(Debug, Default)]
pub(crate) struct Notifications {
    flags: AtomicU32,
    channels: Arc<Channels>,
}

impl Notifications {
    pub(crate) fn new(channels: &Arc<Channels>) -> Self {
        Self { flags: AtomicU32::default(), channels: Arc::clone(channels) }
    }

    /// Publishes an event, if events of its class are to be.
    pub(crate) fn publish(&self, class: EventClass, database: u8, event: &str, key: &[u8]) {
        let (is_by_key, is_by_name) = self.wants(class);
        if is_by_key {
            let channel = [format!("__keyspace@{database}__:").as_bytes(), key].concat();
            self.channels.publish(&channel, event.as_bytes());
        }
        if is_by_name {
            self.channels.publish(format!("__keyevent@{database}__:{event}").as_bytes(), key);
        }
    }

    /// True if any event may be published.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.flags.load(Relaxed) & (KEYSPACE | KEYEVENT) != 0
    }

    /// Returns whether an event of this class is published to the channel of its key, and to that of its name.
    fn wants(&self, class: EventClass) -> (bool, bool) {
        let flags = self.flags.load(Relaxed);
        let is_wanted = flags & class as u32 != 0;
        (is_wanted && flags & KEYSPACE != 0, is_wanted && flags & KEYEVENT != 0)
    }

    /// Parses the letters of the setting; `None` if there is another one.
    pub(crate) fn parse(text: &[u8]) -> Option<u32> {
        text.iter().try_fold(0, |flags, letter| {
            Some(
                flags
                    | match letter {
                        b'A' => all_classes(),
                        b'K' => KEYSPACE,
                        b'E' => KEYEVENT,
                        b'm' => EventClass::KeyMiss as u32,
                        b'n' => EventClass::New as u32,
                        letter => CLASSES.iter().find(|(other, _)| other == letter)?.1,
                    },
            )
        })
    }

    pub(crate) fn set(&self, flags: u32) {
        self.flags.store(flags, Relaxed);
    }

    /// True if commands that only read publish events, too.
    pub(crate) fn has_events_of_reads(&self) -> bool {
        self.is_on() && self.flags.load(Relaxed) & EventClass::KeyMiss as u32 != 0
    }

    /// Returns the setting as Redis 7.0 shows it: without `n` where there is `A`.
    pub(crate) fn letters(&self) -> String {
        let flags = self.flags.load(Relaxed);
        let mut text = String::new();
        if flags & all_classes() == all_classes() {
            text.push('A');
        } else {
            text.extend(CLASSES.iter().filter(|(_, flag)| flags & flag != 0).map(|(letter, _)| char::from(*letter)));
            text.extend((flags & EventClass::New as u32 != 0).then_some('n'));
        }
        let others = [('K', KEYSPACE), ('E', KEYEVENT), ('m', EventClass::KeyMiss as u32)];
        text.extend(others.into_iter().filter(|(_, flag)| flags & flag != 0).map(|(letter, _)| letter));
        text
    }
}

fn all_classes() -> u32 {
    CLASSES.iter().fold(0, |all, (_, flag)| all | flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_is_shown_as_redis_shows_it() {
        let setting = Notifications::default();
        for (text, shown) in [
            ("", ""),
            ("KEA", "AKE"),
            ("Kx", "xK"),
            ("xegKE$", "g$xeKE"),
            ("g$lshzxetdE", "AE"),
            ("KEAmn", "AKEm"),
            ("gmnK", "gnKm"),
            ("KEn", "nKE"),
            ("A", "A"),
        ] {
            setting.set(Notifications::parse(text.as_bytes()).unwrap());
            assert_eq!(setting.letters(), shown);
        }
        assert!(!setting.is_on(), "there is no channel to publish to");
        assert_eq!(Notifications::parse(b"KEq"), None);
    }

    #[test]
    fn classes_have_the_flags_of_their_letters() {
        for (letter, class) in [
            (b'g', EventClass::Generic),
            (b'$', EventClass::String),
            (b'h', EventClass::Hash),
            (b's', EventClass::Set),
            (b'z', EventClass::SortedSet),
            (b'x', EventClass::Expired),
            (b'e', EventClass::Evicted),
            (b'm', EventClass::KeyMiss),
            (b'n', EventClass::New),
        ] {
            let setting = Notifications::default();
            setting.set(Notifications::parse(&[letter, b'K']).unwrap());
            assert_eq!(setting.wants(class), (true, false), "{}", char::from(letter));
        }
    }
}
