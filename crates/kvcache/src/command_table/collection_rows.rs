//! Rows of the commands on hashes, sets and sorted sets, which follow all others.

/// Hands the rows of `with_command_rows`, and these behind them, to a macro.
macro_rules! with_collection_rows {
    ($then:ident; $($before:tt)*) => {
        $then! {
            $($before)*
            /// Sets fields of a hash.
            "hset" (-4) [WRITE DENYOOM FAST] ONE_KEY, "hash" "2.0.0" => hashes::hset;
            /// Sets a field of a hash that does not exist.
            "hsetnx" (4) [WRITE DENYOOM FAST] ONE_KEY, "hash" "2.0.0" => hashes::hsetnx;
            /// Sets fields of a hash; HSET does, too.
            "hmset" (-4) [WRITE DENYOOM FAST] ONE_KEY, "hash" "2.0.0" => hashes::hmset;
            /// Returns the value of a field.
            "hget" (3) [READONLY FAST] ONE_KEY, "hash" "2.0.0" => hashes::hget;
            /// Returns the values of several fields.
            "hmget" (-3) [READONLY FAST] ONE_KEY, "hash" "2.0.0" => hashes::hmget;
            /// Returns all fields and their values.
            "hgetall" (2) [READONLY] ONE_KEY, "hash" "2.0.0" => hashes::hgetall;
            /// Returns the names of all fields.
            "hkeys" (2) [READONLY] ONE_KEY, "hash" "2.0.0" => hashes::hkeys;
            /// Returns the values of all fields.
            "hvals" (2) [READONLY] ONE_KEY, "hash" "2.0.0" => hashes::hvals;
            /// Returns the number of fields.
            "hlen" (2) [READONLY FAST] ONE_KEY, "hash" "2.0.0" => hashes::hlen;
            /// Returns the length of the value of a field.
            "hstrlen" (3) [READONLY FAST] ONE_KEY, "hash" "3.2.0" => hashes::hstrlen;
            /// Tells if a field exists.
            "hexists" (3) [READONLY FAST] ONE_KEY, "hash" "2.0.0" => hashes::hexists;
            /// Deletes fields, and the hash with its last one.
            "hdel" (-3) [WRITE FAST] ONE_KEY, "hash" "2.0.0" => hashes::hdel;
            /// Increments the integer value of a field.
            "hincrby" (4) [WRITE DENYOOM FAST] ONE_KEY, "hash" "2.0.0" => hashes::hincrby;
            /// Increments the floating-point value of a field.
            "hincrbyfloat" (4) [WRITE DENYOOM FAST] ONE_KEY, "hash" "2.6.0" => hashes::hincrbyfloat;
            /// Returns random fields.
            "hrandfield" (-2) [READONLY] ONE_KEY, "hash" "6.2.0" => hash_samples::hrandfield;
            /// Iterates over the fields.
            "hscan" (-3) [READONLY] ONE_KEY, "hash" "2.8.0" => hash_samples::hscan;
            /// Sets the expiry of fields in seconds.
            "hexpire" (-6) [WRITE DENYOOM FAST] ONE_KEY, "hash" "7.4.0" => field_expiry::hexpire;
            /// Sets the expiry of fields in milliseconds.
            "hpexpire" (-6) [WRITE DENYOOM FAST] ONE_KEY, "hash" "7.4.0" => field_expiry::hpexpire;
            /// Sets the expiry of fields to a Unix time in seconds.
            "hexpireat" (-6) [WRITE DENYOOM FAST] ONE_KEY, "hash" "7.4.0" => field_expiry::hexpireat;
            /// Sets the expiry of fields to a Unix time in milliseconds.
            "hpexpireat" (-6) [WRITE DENYOOM FAST] ONE_KEY, "hash" "7.4.0" => field_expiry::hpexpireat;
            /// Returns the seconds until fields expire.
            "httl" (-5) [READONLY FAST] ONE_KEY, "hash" "7.4.0" => field_expiry::httl;
            /// Returns the milliseconds until fields expire.
            "hpttl" (-5) [READONLY FAST] ONE_KEY, "hash" "7.4.0" => field_expiry::hpttl;
            /// Returns the Unix time in seconds at which fields expire.
            "hexpiretime" (-5) [READONLY FAST] ONE_KEY, "hash" "7.4.0" => field_expiry::hexpiretime;
            /// Returns the Unix time in milliseconds at which fields expire.
            "hpexpiretime" (-5) [READONLY FAST] ONE_KEY, "hash" "7.4.0" => field_expiry::hpexpiretime;
            /// Removes the expiry of fields.
            "hpersist" (-5) [WRITE FAST] ONE_KEY, "hash" "7.4.0" => field_expiry::hpersist;
            /// Returns the values of fields, and deletes them.
            "hgetdel" (-5) [WRITE FAST] ONE_KEY, "hash" "8.0.0" => field_values::hgetdel;
            /// Returns the values of fields, and changes their expiry.
            "hgetex" (-5) [WRITE FAST] ONE_KEY, "hash" "8.0.0" => field_values::hgetex;
            /// Sets the values of fields and their expiry.
            "hsetex" (-6) [WRITE DENYOOM FAST] ONE_KEY, "hash" "8.0.0" => field_values::hsetex;
            /// Adds members to a set.
            "sadd" (-3) [WRITE DENYOOM FAST] ONE_KEY, "set" "1.0.0" => sets::sadd;
            /// Removes members from a set.
            "srem" (-3) [WRITE FAST] ONE_KEY, "set" "1.0.0" => sets::srem;
            /// Returns all members of a set.
            "smembers" (2) [READONLY] ONE_KEY, "set" "1.0.0" => sets::smembers;
            /// Tells if a set has a member.
            "sismember" (3) [READONLY FAST] ONE_KEY, "set" "1.0.0" => sets::sismember;
            /// Tells which members a set has.
            "smismember" (-3) [READONLY FAST] ONE_KEY, "set" "6.2.0" => sets::smismember;
            /// Counts the members of a set.
            "scard" (2) [READONLY FAST] ONE_KEY, "set" "1.0.0" => sets::scard;
            /// Removes random members from a set and returns them.
            "spop" (-2) [WRITE FAST] ONE_KEY, "set" "1.0.0" => sets::spop;
            /// Returns random members of a set.
            "srandmember" (-2) [READONLY] ONE_KEY, "set" "1.0.0" => sets::srandmember;
            /// Moves a member from one set to another.
            "smove" (4) [WRITE FAST] TWO_KEYS, "set" "1.0.0" => sets::smove;
            /// Returns the intersection of sets.
            "sinter" (-2) [READONLY] ALL_KEYS, "set" "1.0.0" => set_algebra::sinter;
            /// Returns the union of sets.
            "sunion" (-2) [READONLY] ALL_KEYS, "set" "1.0.0" => set_algebra::sunion;
            /// Returns what a set has and others have not.
            "sdiff" (-2) [READONLY] ALL_KEYS, "set" "1.0.0" => set_algebra::sdiff;
            /// Stores the intersection of sets.
            "sinterstore" (-3) [WRITE DENYOOM] ALL_KEYS, "set" "1.0.0" => set_algebra::sinterstore;
            /// Stores the union of sets.
            "sunionstore" (-3) [WRITE DENYOOM] ALL_KEYS, "set" "1.0.0" => set_algebra::sunionstore;
            /// Stores what a set has and others have not.
            "sdiffstore" (-3) [WRITE DENYOOM] ALL_KEYS, "set" "1.0.0" => set_algebra::sdiffstore;
            /// Counts the members of the intersection of sets.
            "sintercard" (-3) [READONLY MOVABLE_KEYS] NO_KEYS, "set" "7.0.0" => set_algebra::sintercard;
            /// Iterates over the members of a set.
            "sscan" (-3) [READONLY] ONE_KEY, "set" "2.8.0" => sets::sscan;
            /// Adds members to a sorted set, or changes their scores.
            "zadd" (-4) [WRITE DENYOOM FAST] ONE_KEY, "sorted-set" "1.2.0" => sorted_sets::zadd;
            /// Removes members from a sorted set.
            "zrem" (-3) [WRITE FAST] ONE_KEY, "sorted-set" "1.2.0" => sorted_sets::zrem;
            /// Returns the score of a member.
            "zscore" (3) [READONLY FAST] ONE_KEY, "sorted-set" "1.2.0" => sorted_sets::zscore;
            /// Returns the scores of several members.
            "zmscore" (-3) [READONLY FAST] ONE_KEY, "sorted-set" "6.2.0" => sorted_sets::zmscore;
            /// Increments the score of a member.
            "zincrby" (4) [WRITE DENYOOM FAST] ONE_KEY, "sorted-set" "1.2.0" => sorted_sets::zincrby;
            /// Counts the members of a sorted set.
            "zcard" (2) [READONLY FAST] ONE_KEY, "sorted-set" "1.2.0" => sorted_sets::zcard;
            /// Counts the members within a range of scores.
            "zcount" (4) [READONLY FAST] ONE_KEY, "sorted-set" "2.0.0" => sorted_set_ranges::zcount;
            /// Counts the members within a range of texts.
            "zlexcount" (4) [READONLY FAST] ONE_KEY, "sorted-set" "2.8.9" => sorted_set_ranges::zlexcount;
            /// Returns the rank of a member.
            "zrank" (3) [READONLY FAST] ONE_KEY, "sorted-set" "2.0.0" => sorted_sets::zrank;
            /// Returns the rank of a member, counted from the highest score.
            "zrevrank" (3) [READONLY FAST] ONE_KEY, "sorted-set" "2.0.0" => sorted_sets::zrevrank;
            /// Returns the members within a range of ranks, scores or texts.
            "zrange" (-4) [READONLY] ONE_KEY, "sorted-set" "1.2.0" => sorted_set_ranges::zrange;
            /// Stores the members within a range of a sorted set.
            "zrangestore" (-5) [WRITE DENYOOM] TWO_KEYS, "sorted-set" "6.2.0" => sorted_set_ranges::zrangestore;
            /// Returns the members within a range of ranks, in reverse.
            "zrevrange" (-4) [READONLY] ONE_KEY, "sorted-set" "1.2.0" => sorted_set_ranges::zrevrange;
            /// Returns the members within a range of scores.
            "zrangebyscore" (-4) [READONLY] ONE_KEY, "sorted-set" "1.0.5" => sorted_set_ranges::zrangebyscore;
            /// Returns the members within a range of scores, in reverse.
            "zrevrangebyscore" (-4) [READONLY] ONE_KEY, "sorted-set" "2.2.0" => sorted_set_ranges::zrevrangebyscore;
            /// Returns the members within a range of texts.
            "zrangebylex" (-4) [READONLY] ONE_KEY, "sorted-set" "2.8.9" => sorted_set_ranges::zrangebylex;
            /// Returns the members within a range of texts, in reverse.
            "zrevrangebylex" (-4) [READONLY] ONE_KEY, "sorted-set" "2.8.9" => sorted_set_ranges::zrevrangebylex;
            /// Removes the members within a range of ranks.
            "zremrangebyrank" (4) [WRITE] ONE_KEY, "sorted-set" "2.0.0" => sorted_set_ranges::zremrangebyrank;
            /// Removes the members within a range of scores.
            "zremrangebyscore" (4) [WRITE] ONE_KEY, "sorted-set" "1.2.0" => sorted_set_ranges::zremrangebyscore;
            /// Removes the members within a range of texts.
            "zremrangebylex" (4) [WRITE] ONE_KEY, "sorted-set" "2.8.9" => sorted_set_ranges::zremrangebylex;
            /// Removes the members with the lowest scores and returns them.
            "zpopmin" (-2) [WRITE FAST] ONE_KEY, "sorted-set" "5.0.0" => sorted_set_pops::zpopmin;
            /// Removes the members with the highest scores and returns them.
            "zpopmax" (-2) [WRITE FAST] ONE_KEY, "sorted-set" "5.0.0" => sorted_set_pops::zpopmax;
            /// Removes members from one end of the first sorted set that is not empty, and returns them.
            "zmpop" (-4) [WRITE MOVABLE_KEYS] NO_KEYS, "sorted-set" "7.0.0" => sorted_set_pops::zmpop;
            /// Returns random members of a sorted set.
            "zrandmember" (-2) [READONLY] ONE_KEY, "sorted-set" "6.2.0" => sorted_set_pops::zrandmember;
            /// Iterates over the members of a sorted set.
            "zscan" (-3) [READONLY] ONE_KEY, "sorted-set" "2.8.0" => sorted_set_pops::zscan;
            /// Returns the union of sorted sets.
            "zunion" (-3) [READONLY MOVABLE_KEYS] NO_KEYS, "sorted-set" "6.2.0" => sorted_set_algebra::zunion;
            /// Returns the intersection of sorted sets.
            "zinter" (-3) [READONLY MOVABLE_KEYS] NO_KEYS, "sorted-set" "6.2.0" => sorted_set_algebra::zinter;
            /// Returns what a sorted set has and others have not.
            "zdiff" (-3) [READONLY MOVABLE_KEYS] NO_KEYS, "sorted-set" "6.2.0" => sorted_set_algebra::zdiff;
            /// Stores the union of sorted sets.
            "zunionstore" (-4) [WRITE DENYOOM MOVABLE_KEYS] ONE_KEY, "sorted-set" "2.0.0" => sorted_set_algebra::zunionstore;
            /// Stores the intersection of sorted sets.
            "zinterstore" (-4) [WRITE DENYOOM MOVABLE_KEYS] ONE_KEY, "sorted-set" "2.0.0" => sorted_set_algebra::zinterstore;
            /// Stores what a sorted set has and others have not.
            "zdiffstore" (-4) [WRITE DENYOOM MOVABLE_KEYS] ONE_KEY, "sorted-set" "6.2.0" => sorted_set_algebra::zdiffstore;
            /// Counts the members of the intersection of sorted sets.
            "zintercard" (-3) [READONLY MOVABLE_KEYS] NO_KEYS, "sorted-set" "7.0.0" => sorted_set_algebra::zintercard;
        }
    };
}

pub(crate) use with_collection_rows;
