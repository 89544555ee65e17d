//! Rows of the command table: what each command is called, what it takes and who answers it.

/// Hands all rows to a macro. [`super::TABLE`] keeps what is known of a command without running it; the dispatcher, which
/// stands above all commands, keeps the handlers. So a command has one row, and the table depends on no command.
///
/// A row is a summary, the name, the arity, flags, keys, the group, the version of Redis that first had the command, and
/// its handler.
macro_rules! with_command_rows {
    ($then:ident) => {
        $crate::command_table::with_collection_rows! { $then;
            /// Returns the value of a key.
            "get" (2) [READONLY FAST] ONE_KEY, "string" "1.0.0" => strings::get;
            /// Sets the value of a key, optionally with a condition and an expiry.
            "set" (-3) [WRITE DENYOOM] ONE_KEY, "string" "1.0.0" => strings::set;
            /// Deletes keys.
            "del" (-2) [WRITE] ALL_KEYS, "generic" "1.0.0" => generic::del;
            /// Sets the value of a key that does not exist.
            "setnx" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => strings::setnx;
            /// Sets the value of a key and its expiry in seconds.
            "setex" (4) [WRITE DENYOOM] ONE_KEY, "string" "2.0.0" => strings::setex;
            /// Sets the value of a key and its expiry in milliseconds.
            "psetex" (4) [WRITE DENYOOM] ONE_KEY, "string" "2.6.0" => strings::psetex;
            /// Returns the value of a key and sets its expiry.
            "getex" (-2) [WRITE FAST] ONE_KEY, "string" "6.2.0" => strings::getex;
            /// Returns the value of a key and deletes the key.
            "getdel" (2) [WRITE FAST] ONE_KEY, "string" "6.2.0" => strings::getdel;
            /// Returns the value of a key and sets a new one.
            "getset" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => strings::getset;
            /// Returns the values of several keys.
            "mget" (-2) [READONLY FAST] ALL_KEYS, "string" "1.0.0" => strings::mget;
            /// Sets the values of several keys.
            "mset" (-3) [WRITE DENYOOM] PAIRS, "string" "1.0.1" => strings::mset;
            /// Sets the values of several keys if none of them exists.
            "msetnx" (-3) [WRITE DENYOOM] PAIRS, "string" "1.0.1" => strings::msetnx;
            /// Returns the length of a value.
            "strlen" (2) [READONLY FAST] ONE_KEY, "string" "2.2.0" => ranges::strlen;
            /// Returns a part of a value.
            "getrange" (4) [READONLY] ONE_KEY, "string" "2.4.0" => ranges::getrange;
            /// Returns a part of a value.
            "substr" (4) [READONLY] ONE_KEY, "string" "1.0.0" => ranges::getrange;
            /// Overwrites a part of a value.
            "setrange" (4) [WRITE DENYOOM] ONE_KEY, "string" "2.2.0" => ranges::setrange;
            /// Appends to a value.
            "append" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "2.0.0" => ranges::append;
            /// Increments an integer value by one.
            "incr" (2) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => counters::incr;
            /// Decrements an integer value by one.
            "decr" (2) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => counters::decr;
            /// Increments an integer value.
            "incrby" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => counters::incrby;
            /// Decrements an integer value.
            "decrby" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => counters::decrby;
            /// Increments a floating-point value.
            "incrbyfloat" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "2.6.0" => counters::incrbyfloat;
            /// Finds the longest common subsequence of two values.
            "lcs" (-3) [READONLY] TWO_KEYS, "string" "7.0.0" => lcs::lcs;
            /// Returns a bit of a value.
            "getbit" (3) [READONLY FAST] ONE_KEY, "bitmap" "2.2.0" => bits::getbit;
            /// Sets or clears a bit of a value.
            "setbit" (4) [WRITE DENYOOM] ONE_KEY, "bitmap" "2.2.0" => bits::setbit;
            /// Counts the set bits of a value.
            "bitcount" (-2) [READONLY] ONE_KEY, "bitmap" "2.6.0" => bits::bitcount;
            /// Finds the first set or clear bit of a value.
            "bitpos" (-3) [READONLY] ONE_KEY, "bitmap" "2.8.7" => bits::bitpos;
            /// Combines the bits of several values.
            "bitop" (-4) [WRITE DENYOOM] Keys(2, -1, 1), "bitmap" "2.6.0" => bits::bitop;
            /// Reads and writes integers of any width in a value.
            "bitfield" (-2) [WRITE DENYOOM] ONE_KEY, "bitmap" "3.2.0" => bitfield::bitfield;
            /// Reads integers of any width in a value.
            "bitfield_ro" (-2) [READONLY FAST] ONE_KEY, "bitmap" "6.0.0" => bitfield::bitfield_ro;
            /// Deletes keys.
            "unlink" (-2) [WRITE FAST] ALL_KEYS, "generic" "4.0.0" => generic::del;
            /// Counts the keys that exist.
            "exists" (-2) [READONLY FAST] ALL_KEYS, "generic" "1.0.0" => generic::exists;
            /// Marks keys as used, and counts those that exist.
            "touch" (-2) [READONLY FAST] ALL_KEYS, "generic" "3.2.1" => generic::touch;
            /// Returns the type of a value.
            "type" (2) [READONLY FAST] ONE_KEY, "generic" "1.0.0" => generic::type_of;
            /// Renames a key.
            "rename" (3) [WRITE] TWO_KEYS, "generic" "1.0.0" => generic::rename;
            /// Renames a key if the new name does not exist.
            "renamenx" (3) [WRITE FAST] TWO_KEYS, "generic" "1.0.0" => generic::renamenx;
            /// Copies the value and expiry of a key to another key.
            "copy" (-3) [WRITE DENYOOM] TWO_KEYS, "generic" "6.2.0" => generic::copy;
            /// Moves a key to another database.
            "move" (3) [WRITE FAST] ONE_KEY, "generic" "1.0.0" => generic::move_to;
            /// Returns a random key.
            "randomkey" (1) [READONLY] NO_KEYS, "generic" "1.0.0" => scan::randomkey;
            /// Lists the keys that match a pattern.
            "keys" (2) [READONLY] NO_KEYS, "generic" "1.0.0" => scan::keys;
            /// Iterates over the keys.
            "scan" (-2) [READONLY] NO_KEYS, "generic" "2.8.0" => scan::scan;
            /// Sets the expiry of a key in seconds.
            "expire" (-3) [WRITE FAST] ONE_KEY, "generic" "1.0.0" => expiry::expire;
            /// Sets the expiry of a key in milliseconds.
            "pexpire" (-3) [WRITE FAST] ONE_KEY, "generic" "2.6.0" => expiry::pexpire;
            /// Sets the expiry of a key to a Unix time in seconds.
            "expireat" (-3) [WRITE FAST] ONE_KEY, "generic" "1.2.0" => expiry::expireat;
            /// Sets the expiry of a key to a Unix time in milliseconds.
            "pexpireat" (-3) [WRITE FAST] ONE_KEY, "generic" "2.6.0" => expiry::pexpireat;
            /// Returns the seconds until a key expires.
            "ttl" (2) [READONLY FAST] ONE_KEY, "generic" "1.0.0" => expiry::ttl;
            /// Returns the milliseconds until a key expires.
            "pttl" (2) [READONLY FAST] ONE_KEY, "generic" "2.6.0" => expiry::pttl;
            /// Returns the Unix time in seconds at which a key expires.
            "expiretime" (2) [READONLY FAST] ONE_KEY, "generic" "7.0.0" => expiry::expiretime;
            /// Returns the Unix time in milliseconds at which a key expires.
            "pexpiretime" (2) [READONLY FAST] ONE_KEY, "generic" "7.0.0" => expiry::pexpiretime;
            /// Removes the expiry of a key.
            "persist" (2) [WRITE FAST] ONE_KEY, "generic" "2.2.0" => expiry::persist;
            /// Commands that inspect a key.
            "object" (-2) [CONTAINER] NO_KEYS, "generic" "2.2.3" => objects::container;
            /// Returns the encoding that Redis would use for a value.
            "object|encoding" (3) [READONLY] Keys(2, 2, 1), "generic" "2.2.3" => objects::encoding;
            /// Returns how often a key is used, on a logarithmic scale.
            "object|freq" (3) [READONLY] Keys(2, 2, 1), "generic" "4.0.0" => objects::freq;
            /// Lists the subcommands.
            "object|help" (2) [LOADING STALE] NO_KEYS, "generic" "6.2.0" => objects::help;
            /// Returns the seconds since the last use of a key.
            "object|idletime" (3) [READONLY] Keys(2, 2, 1), "generic" "2.2.3" => objects::idletime;
            /// Returns the reference count that Redis would have for a value.
            "object|refcount" (3) [READONLY] Keys(2, 2, 1), "generic" "2.2.3" => objects::refcount;
            /// Commands that show memory usage.
            "memory" (-2) [CONTAINER] NO_KEYS, "server" "4.0.0" => objects::container;
            /// Lists the subcommands.
            "memory|help" (2) [LOADING STALE] NO_KEYS, "server" "4.0.0" => objects::memory_help;
            /// Returns statistics of the allocator.
            "memory|malloc-stats" (2) [] NO_KEYS, "server" "4.0.0" => objects::malloc_stats;
            /// Releases memory to the system.
            "memory|purge" (2) [] NO_KEYS, "server" "4.0.0" => objects::memory_purge;
            /// Returns figures of memory usage.
            "memory|stats" (2) [] NO_KEYS, "server" "4.0.0" => objects::memory_stats;
            /// Returns the memory used by a key.
            "memory|usage" (-3) [READONLY] Keys(2, 2, 1), "server" "4.0.0" => objects::memory_usage;
            /// Deletes all keys of all databases.
            "flushall" (-1) [WRITE] NO_KEYS, "server" "1.0.0" => scan::flushall;
            /// Deletes all keys of the selected database.
            "flushdb" (-1) [WRITE] NO_KEYS, "server" "1.0.0" => scan::flushdb;
            /// Saves a snapshot, and replies when it is complete.
            "save" (1) [ADMIN NOSCRIPT NO_ASYNC_LOADING NO_MULTI] NO_KEYS, "server" "1.0.0" => persistence::save;
            /// Saves a snapshot in the background.
            "bgsave" (-1) [ADMIN NOSCRIPT NO_ASYNC_LOADING] NO_KEYS, "server" "1.0.0" => persistence::bgsave;
            /// Starts a transaction.
            "multi" (1) [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NO_KEYS, "transactions" "1.2.0" => transactions::multi;
            /// Runs the commands of a transaction.
            "exec" (1) [NOSCRIPT LOADING STALE SKIP_SLOWLOG] NO_KEYS, "transactions" "1.2.0" => exec;
            /// Discards a transaction.
            "discard" (1) [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NO_KEYS, "transactions" "2.0.0" => transactions::discard;
            /// Makes EXEC depend on keys that must not change.
            "watch" (-2) [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] ALL_KEYS, "transactions" "2.2.0" => transactions::watch;
            /// Forgets the watched keys.
            "unwatch" (1) [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NO_KEYS, "transactions" "2.2.0" => transactions::unwatch;
            /// Tests that the server replies.
            "ping" (-1) [FAST] NO_KEYS, "connection" "1.0.0" => connection::ping;
            /// Returns its argument.
            "echo" (2) [LOADING STALE FAST] NO_KEYS, "connection" "1.0.0" => connection::echo;
            /// Closes the connection.
            "quit" (-1) [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NO_KEYS, "connection" "1.0.0" => connection::quit;
            /// Resets the connection.
            "reset" (1) [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NO_KEYS, "connection" "6.2.0" => connection::reset;
            /// Selects the protocol version; optionally authenticates and names the connection.
            "hello" (-1) [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NO_KEYS, "connection" "6.0.0" => connection::hello;
            /// Authenticates the connection.
            "auth" (-2) [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NO_KEYS, "connection" "1.0.0" => connection::auth;
            /// Selects a database.
            "select" (2) [LOADING STALE FAST] NO_KEYS, "connection" "1.0.0" => connection::select;
            /// Commands about connections.
            "client" (-2) [CONTAINER] NO_KEYS, "connection" "2.4.0" => help::container;
            /// Controls tracking of the next command's keys; tracking is not supported.
            "client|caching" (3) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "6.0.0" => client::caching;
            /// Returns the name of the connection.
            "client|getname" (2) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "2.6.9" => client::getname;
            /// Returns the connection that invalidations are redirected to; there is none.
            "client|getredir" (2) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "6.0.0" => client::getredir;
            /// Lists the subcommands.
            "client|help" (2) [LOADING STALE] NO_KEYS, "connection" "5.0.0" => help::help;
            /// Returns the identifier of the connection.
            "client|id" (2) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "5.0.0" => client::id;
            /// Returns information about the connection.
            "client|info" (2) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "6.2.0" => client::info;
            /// Closes connections.
            "client|kill" (-3) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "connection" "2.4.0" => client::kill;
            /// Lists the connections.
            "client|list" (-2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "connection" "2.4.0" => client::list;
            /// Sets the no-evict flag; the server never closes a client to free memory.
            "client|no-evict" (3) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "connection" "7.0.0" => client::no_evict;
            /// Controls whether reading a key counts as a use of it.
            "client|no-touch" (3) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "7.2.0" => client::no_touch;
            /// Suspends commands for some time.
            "client|pause" (-3) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "connection" "2.9.50" => client::pause;
            /// Controls whether the server replies.
            "client|reply" (3) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "3.2.0" => client::reply;
            /// Sets the name or version of the client's library.
            "client|setinfo" (4) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "7.2.0" => client::setinfo;
            /// Sets the name of the connection.
            "client|setname" (3) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "2.6.9" => client::setname;
            /// Controls client-side caching; it is not supported and can only be switched off.
            "client|tracking" (-3) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "6.0.0" => client::tracking;
            /// Returns the tracking state of the connection, which is off.
            "client|trackinginfo" (2) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "6.2.0" => client::trackinginfo;
            /// Unblocks a client in a blocking command; no command blocks.
            "client|unblock" (-3) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "connection" "5.0.0" => client::unblock;
            /// Ends CLIENT PAUSE.
            "client|unpause" (2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "connection" "6.2.0" => client::unpause;
            /// Returns information about all commands.
            "command" (-1) [LOADING STALE CONTAINER] NO_KEYS, "server" "2.8.13" => command_info::all;
            /// Returns the number of commands.
            "command|count" (2) [LOADING STALE] NO_KEYS, "server" "2.8.13" => command_info::count;
            /// Returns summaries and arguments of commands.
            "command|docs" (-2) [LOADING STALE] NO_KEYS, "server" "7.0.0" => command_info::docs;
            /// Extracts the keys from a command.
            "command|getkeys" (-4) [LOADING STALE] NO_KEYS, "server" "2.8.13" => command_info::getkeys;
            /// Extracts the keys from a command, with the access to each.
            "command|getkeysandflags" (-4) [LOADING STALE] NO_KEYS, "server" "7.0.0" => command_info::getkeys_and_flags;
            /// Lists the subcommands.
            "command|help" (2) [LOADING STALE] NO_KEYS, "server" "5.0.0" => help::help;
            /// Returns information about some commands.
            "command|info" (-2) [LOADING STALE] NO_KEYS, "server" "2.8.13" => command_info::info;
            /// Lists the names of commands.
            "command|list" (-2) [LOADING STALE] NO_KEYS, "server" "7.0.0" => command_info::list;
            /// Commands about settings.
            "config" (-2) [CONTAINER] NO_KEYS, "server" "2.0.0" => help::container;
            /// Returns the settings that match patterns.
            "config|get" (-3) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.0.0" => config::get;
            /// Lists the subcommands.
            "config|help" (2) [LOADING STALE] NO_KEYS, "server" "5.0.0" => help::help;
            /// Resets the statistics.
            "config|resetstat" (2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.0.0" => config::resetstat;
            /// Rewrites the configuration file; there is none.
            "config|rewrite" (2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.8.0" => config::rewrite;
            /// Changes settings, all of them or none.
            "config|set" (-4) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.0.0" => config::set;
            /// Returns information and statistics about the server.
            "info" (-1) [LOADING STALE] NO_KEYS, "server" "1.0.0" => info::info;
            /// Returns the Unix time of the last snapshot.
            "lastsave" (1) [LOADING STALE FAST] NO_KEYS, "server" "1.0.0" => persistence::lastsave;
            /// Returns the time of the server.
            "time" (1) [LOADING STALE FAST] NO_KEYS, "server" "2.6.0" => server::time;
            /// Returns the replication role, which is master without replicas.
            "role" (1) [NOSCRIPT LOADING STALE FAST] NO_KEYS, "server" "2.8.12" => server::role;
            /// Returns the version of Redis that is implemented.
            "lolwut" (-1) [READONLY FAST] NO_KEYS, "server" "5.0.0" => server::lolwut;
            /// Returns the number of keys in the selected database.
            "dbsize" (1) [READONLY FAST] NO_KEYS, "server" "1.0.0" => scan::dbsize;
            /// Waits for replicas; there are none, so it returns 0 at once.
            "wait" (3) [NOSCRIPT] NO_KEYS, "generic" "3.0.0" => server::wait;
            /// Configures replication; only NO ONE is supported.
            "replicaof" (3) [ADMIN NOSCRIPT STALE NO_ASYNC_LOADING] NO_KEYS, "server" "5.0.0" => server::replicaof;
            /// Former name of REPLICAOF.
            "slaveof" (3) [ADMIN NOSCRIPT STALE NO_ASYNC_LOADING] NO_KEYS, "server" "1.0.0" => server::replicaof;
            /// Drains and stops the server.
            "shutdown" (-1) [ADMIN NOSCRIPT LOADING STALE NO_MULTI ALLOW_BUSY] NO_KEYS, "server" "1.0.0" => server::shutdown;
            /// Commands for tests: SLEEP and SET-ACTIVE-EXPIRE.
            "debug" (-2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "1.0.0" => debug::debug;
            /// Commands about the slow log.
            "slowlog" (-2) [CONTAINER] NO_KEYS, "server" "2.2.12" => help::container;
            /// Returns the latest entries of the slow log.
            "slowlog|get" (-2) [ADMIN LOADING STALE] NO_KEYS, "server" "2.2.12" => slowlog::get;
            /// Lists the subcommands.
            "slowlog|help" (2) [LOADING STALE] NO_KEYS, "server" "6.2.0" => help::help;
            /// Returns the number of entries in the slow log.
            "slowlog|len" (2) [ADMIN LOADING STALE] NO_KEYS, "server" "2.2.12" => slowlog::len;
            /// Clears the slow log.
            "slowlog|reset" (2) [ADMIN LOADING STALE] NO_KEYS, "server" "2.2.12" => slowlog::reset;
            /// Commands about latency.
            "latency" (-2) [CONTAINER] NO_KEYS, "server" "2.8.13" => help::container;
            /// Returns a report on latency in words.
            "latency|doctor" (2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.8.13" => latency::doctor;
            /// Returns a graph of the latency of an event.
            "latency|graph" (3) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.8.13" => latency::graph;
            /// Lists the subcommands.
            "latency|help" (2) [LOADING STALE] NO_KEYS, "server" "2.8.13" => help::help;
            /// Returns histograms of the latency of commands.
            "latency|histogram" (-2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "7.0.0" => latency::histogram;
            /// Returns the latency samples of an event.
            "latency|history" (3) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.8.13" => latency::history;
            /// Returns the latest latency sample of each event.
            "latency|latest" (2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.8.13" => latency::latest;
            /// Deletes latency samples.
            "latency|reset" (-2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.8.13" => latency::reset;
            /// Commands about functions, which are not supported.
            "function" (-2) [CONTAINER] NO_KEYS, "scripting" "7.0.0" => help::container;
            /// Deletes a library of functions; there is none.
            "function|delete" (3) [WRITE NOSCRIPT] NO_KEYS, "scripting" "7.0.0" => scripting::function_delete;
            /// Deletes all libraries of functions; there are none.
            "function|flush" (-2) [WRITE NOSCRIPT] NO_KEYS, "scripting" "7.0.0" => scripting::function_flush;
            /// Lists the subcommands.
            "function|help" (2) [LOADING STALE] NO_KEYS, "scripting" "7.0.0" => help::help;
            /// Stops a running function; there is none.
            "function|kill" (2) [NOSCRIPT ALLOW_BUSY] NO_KEYS, "scripting" "7.0.0" => scripting::function_kill;
            /// Lists the libraries of functions; there are none.
            "function|list" (-2) [NOSCRIPT] NO_KEYS, "scripting" "7.0.0" => scripting::function_list;
            /// Returns the running function; there is none.
            "function|stats" (2) [NOSCRIPT ALLOW_BUSY] NO_KEYS, "scripting" "7.0.0" => scripting::function_stats;
            /// Runs a script of Lua.
            "eval" (-3) [NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLE_KEYS] NO_KEYS, "scripting" "2.6.0" => scripting::eval;
            /// Runs a cached script of Lua.
            "evalsha" (-3) [NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLE_KEYS] NO_KEYS, "scripting" "2.6.0" => scripting::evalsha;
            /// Runs a script of Lua that only reads.
            "eval_ro" (-3) [READONLY NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLE_KEYS] NO_KEYS, "scripting" "7.0.0" => scripting::eval_ro;
            /// Runs a cached script of Lua that only reads.
            "evalsha_ro" (-3) [READONLY NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLE_KEYS] NO_KEYS, "scripting" "7.0.0" => scripting::evalsha_ro;
            /// Commands about scripts.
            "script" (-2) [CONTAINER] NO_KEYS, "scripting" "2.6.0" => help::container;
            /// Controls the debugger of scripts; there is none.
            "script|debug" (3) [NOSCRIPT] NO_KEYS, "scripting" "3.2.0" => scripting::script_debug;
            /// Tells which scripts are cached.
            "script|exists" (-3) [NOSCRIPT] NO_KEYS, "scripting" "2.6.0" => scripting::script_exists;
            /// Forgets all cached scripts.
            "script|flush" (-2) [NOSCRIPT] NO_KEYS, "scripting" "2.6.0" => scripting::script_flush;
            /// Lists the subcommands.
            "script|help" (2) [LOADING STALE] NO_KEYS, "scripting" "5.0.0" => help::help;
            /// Stops a script that takes long and has not written.
            "script|kill" (2) [NOSCRIPT ALLOW_BUSY] NO_KEYS, "scripting" "2.6.0" => scripting::script_kill;
            /// Caches a script without running it.
            "script|load" (3) [NOSCRIPT STALE] NO_KEYS, "scripting" "2.6.0" => scripting::script_load;
            /// Commands about users; there is one, called default.
            "acl" (-2) [CONTAINER] NO_KEYS, "server" "6.0.0" => help::container;
            /// Lists the categories of commands, or the commands of a category.
            "acl|cat" (-2) [NOSCRIPT LOADING STALE] NO_KEYS, "server" "6.0.0" => acl::cat;
            /// Returns the permissions of a user.
            "acl|getuser" (3) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "6.0.0" => acl::getuser;
            /// Lists the subcommands.
            "acl|help" (2) [LOADING STALE] NO_KEYS, "server" "6.0.0" => help::help;
            /// Lists the users with their permissions.
            "acl|list" (2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "6.0.0" => acl::list;
            /// Lists the names of the users.
            "acl|users" (2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "6.0.0" => acl::users;
            /// Returns the user of the connection.
            "acl|whoami" (2) [NOSCRIPT LOADING STALE] NO_KEYS, "server" "6.0.0" => acl::whoami;
            /// Subscribes to channels.
            "subscribe" (-2) [PUBSUB NOSCRIPT LOADING STALE] NO_KEYS, "pubsub" "2.0.0" => pubsub::subscribe;
            /// Ends subscriptions to channels.
            "unsubscribe" (-1) [PUBSUB NOSCRIPT LOADING STALE] NO_KEYS, "pubsub" "2.0.0" => pubsub::unsubscribe;
            /// Subscribes to all channels that match patterns.
            "psubscribe" (-2) [PUBSUB NOSCRIPT LOADING STALE] NO_KEYS, "pubsub" "2.0.0" => pubsub::psubscribe;
            /// Ends subscriptions to patterns.
            "punsubscribe" (-1) [PUBSUB NOSCRIPT LOADING STALE] NO_KEYS, "pubsub" "2.0.0" => pubsub::punsubscribe;
            /// Subscribes to sharded channels.
            "ssubscribe" (-2) [PUBSUB NOSCRIPT LOADING STALE] ALL_KEYS, "pubsub" "7.0.0" => pubsub::ssubscribe;
            /// Ends subscriptions to sharded channels.
            "sunsubscribe" (-1) [PUBSUB NOSCRIPT LOADING STALE] ALL_KEYS, "pubsub" "7.0.0" => pubsub::sunsubscribe;
            /// Sends a message to the subscribers of a channel.
            "publish" (3) [PUBSUB LOADING STALE FAST] NO_KEYS, "pubsub" "2.0.0" => pubsub::publish;
            /// Sends a message to the subscribers of a sharded channel.
            "spublish" (3) [PUBSUB LOADING STALE FAST] ONE_KEY, "pubsub" "7.0.0" => pubsub::spublish;
            /// Commands about subscriptions.
            "pubsub" (-2) [CONTAINER] NO_KEYS, "pubsub" "2.8.0" => help::container;
            /// Lists the channels that have subscribers.
            "pubsub|channels" (-2) [PUBSUB LOADING STALE] NO_KEYS, "pubsub" "2.8.0" => pubsub::channels;
            /// Lists the subcommands.
            "pubsub|help" (2) [LOADING STALE] NO_KEYS, "pubsub" "6.2.0" => help::help;
            /// Returns the number of patterns that have subscribers.
            "pubsub|numpat" (2) [PUBSUB LOADING STALE] NO_KEYS, "pubsub" "2.8.0" => pubsub::numpat;
            /// Returns the numbers of subscribers of channels.
            "pubsub|numsub" (-2) [PUBSUB LOADING STALE] NO_KEYS, "pubsub" "2.8.0" => pubsub::numsub;
            /// Lists the sharded channels that have subscribers.
            "pubsub|shardchannels" (-2) [PUBSUB LOADING STALE] NO_KEYS, "pubsub" "7.0.0" => pubsub::shardchannels;
            /// Returns the numbers of subscribers of sharded channels.
            "pubsub|shardnumsub" (-2) [PUBSUB LOADING STALE] NO_KEYS, "pubsub" "7.0.0" => pubsub::shardnumsub;
            /// Commands for clients that require a cluster; see --cluster.
            "cluster" (-2) [CONTAINER] NO_KEYS, "cluster" "3.0.0" => help::container;
            /// Returns the number of keys in a slot.
            "cluster|countkeysinslot" (3) [STALE] NO_KEYS, "cluster" "3.0.0" => cluster::count_keys_in_slot;
            /// Returns keys of a slot.
            "cluster|getkeysinslot" (4) [STALE] NO_KEYS, "cluster" "3.0.0" => cluster::get_keys_in_slot;
            /// Lists the subcommands.
            "cluster|help" (2) [LOADING STALE] NO_KEYS, "cluster" "5.0.0" => help::help;
            /// Returns the state of the cluster.
            "cluster|info" (2) [STALE] NO_KEYS, "cluster" "3.0.0" => cluster::info;
            /// Returns the slot of a key.
            "cluster|keyslot" (3) [STALE] NO_KEYS, "cluster" "3.0.0" => cluster::keyslot;
            /// Lists the connections to other nodes; there are none.
            "cluster|links" (2) [STALE] NO_KEYS, "cluster" "7.0.0" => cluster::links;
            /// Returns the identifier of this node.
            "cluster|myid" (2) [STALE] NO_KEYS, "cluster" "3.0.0" => cluster::myid;
            /// Lists the nodes; there is only this one.
            "cluster|nodes" (2) [STALE] NO_KEYS, "cluster" "3.0.0" => cluster::nodes;
            /// Lists the shards; this node has all slots.
            "cluster|shards" (2) [STALE] NO_KEYS, "cluster" "7.0.0" => cluster::shards;
            /// Lists the slots of each node; this node has all.
            "cluster|slots" (2) [STALE] NO_KEYS, "cluster" "3.0.0" => cluster::slots;
            /// Accepted without effect: no command is redirected.
            "asking" (1) [FAST] NO_KEYS, "cluster" "3.0.0" => cluster::accept;
            /// Accepted without effect: there are no replicas.
            "readonly" (1) [LOADING STALE FAST] NO_KEYS, "cluster" "3.0.0" => cluster::accept;
            /// Accepted without effect: there are no replicas.
            "readwrite" (1) [LOADING STALE FAST] NO_KEYS, "cluster" "3.0.0" => cluster::accept;
            /// Returns the number and latency of commands since the last PERF RESET.
            "perf" (-1) [ADMIN NOSCRIPT LOADING STALE CONTAINER] NO_KEYS, "server" "7.0.15" => perf::report;
            /// Lists the subcommands.
            "perf|help" (2) [LOADING STALE] NO_KEYS, "server" "7.0.15" => help::help;
            /// Restarts the measurement.
            "perf|reset" (2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "7.0.15" => perf::reset;
        }
    };
}

pub(crate) use with_command_rows;
