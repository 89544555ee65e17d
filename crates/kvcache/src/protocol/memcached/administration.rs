//! Commands of operators: `stats cachedump`, `cache_memlimit`.

use store::{EntryView, Store};
use wire::memcached::{KEY_BYTES_MAX, parse_unsigned};

use super::{Call, stats::ITEM_CLASS};
use crate::{state::split_stored_key, value::Value};

/// Number of slab classes that memcached can have.
const CLASSES_MAX: u64 = 64;
/// Limit of the reply to `stats cachedump`, as in memcached.
const DUMP_BYTES_MAX: usize = 2 << 20;
/// Least memory limit, in MiB, and the most that is taken for MiB.
const MEBIBYTES: std::ops::RangeInclusive<u32> = 8..=1_000_000_000;

impl<S: Store + 'static> Call<'_, '_, S> {
    /// Lists items of a class, up to a number of them; 0: all that a reply has room for.
    pub(super) fn cachedump(&mut self, class: Option<&[u8]>, count: Option<&[u8]>) -> Result<(), &'static str> {
        let (Some(class), Some(count)) = (class, count) else { return Err("CLIENT_ERROR bad command line") };
        let number = |word| parse_unsigned(word).filter(|&number| u32::try_from(number).is_ok());
        let (Some(class), Some(count)) = (number(class), number(count)) else {
            return Err("CLIENT_ERROR bad command line format");
        };
        if class >= CLASSES_MAX {
            return Err("CLIENT_ERROR Illegal slab id");
        }
        if class == ITEM_CLASS {
            let count = usize::try_from(count).ok().filter(|&count| count > 0).unwrap_or(usize::MAX);
            let lines = self.items_as_lines(count);
            self.out.inline().extend_from_slice(&lines);
        }
        Ok(())
    }

    fn items_as_lines(&mut self, count: usize) -> Vec<u8> {
        let (now_ms, codec) = (self.keys.now.unix_ms, self.state.space.codec());
        let (mut lines, mut left) = (Vec::new(), count);
        self.keys.for_each_shard(|cache| {
            let mut cursor = 0;
            while left > 0 && lines.len() < DUMP_BYTES_MAX {
                cursor = cache.store().scan(cursor, &mut |view: EntryView<'_>| {
                    let (database, key) = split_stored_key(view.key);
                    let expires_at = view.attributes.expires_at;
                    let is_alive = expires_at == 0 || expires_at > now_ms;
                    if database != 0 || !is_alive || !is_word(key) || left == 0 || lines.len() >= DUMP_BYTES_MAX {
                        return;
                    }
                    let Ok(Some(Value { bytes, .. })) = Value::decode(codec, view) else { return };
                    lines.extend_from_slice(b"ITEM ");
                    lines.extend_from_slice(key);
                    let line = format!(" [{} b; {} s]\r\n", bytes.len(), expires_at / 1000);
                    lines.extend_from_slice(line.as_bytes());
                    left -= 1;
                });
                if cursor == 0 {
                    break;
                }
            }
        });
        lines
    }

    /// Changes the memory limit, as CONFIG SET maxmemory does.
    pub(super) fn set_memory_limit(&mut self, mebibytes: Option<u32>, noreply: bool) {
        let line = match mebibytes {
            None => "ERROR",
            Some(mebibytes) if mebibytes < *MEBIBYTES.start() => {
                "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"
            }
            Some(mebibytes) if mebibytes > *MEBIBYTES.end() => {
                "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes"
            }
            Some(mebibytes) => {
                let bytes = usize::try_from(u64::from(mebibytes) << 20).unwrap_or(usize::MAX);
                let shards = self.keys.space().shards();
                self.state.settings.set_memory_max(Some(bytes));
                self.keys.for_each_shard(|cache| cache.set_limit(Some(bytes / shards)));
                "OK"
            }
        };
        self.write_line(noreply, line);
    }
}

/// True if a key can be named in a line.
fn is_word(key: &[u8]) -> bool {
    (1..=KEY_BYTES_MAX).contains(&key.len()) && key.iter().all(|byte| byte.is_ascii_graphic() || *byte >= 0x80)
}
