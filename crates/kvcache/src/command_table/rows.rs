//! Rows of the command table: what each command is called, what it takes and who answers it.

/// Hands all rows to a macro. [`super::TABLE`] keeps what is known of a command without running it; the dispatcher, which
/// stands above all commands, keeps the handlers. So a command has one row, and the table depends on no command.
///
/// A row is a summary, the name, the arity, flags, keys, the group, the version of Redis that first had the command, and
/// its handler.
macro_rules! with_command_rows {
    ($then:ident) => {
        $then! {
            /// Shows the value of a key.
            "get" (2) [READONLY FAST] ONE_KEY, "string" "1.0.0" => strings::get;
            /// Gives a key a value, if it is absent or present and for a time if that is asked for.
            "set" (-3) [WRITE DENYOOM] ONE_KEY, "string" "1.0.0" => strings::set;
            /// Deletes keys.
            "del" (-2) [WRITE] ALL_KEYS, "generic" "1.0.0" => generic::del;
            /// Gives an absent key a value.
            "setnx" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => strings::setnx;
            /// Gives a key a value for some seconds.
            "setex" (4) [WRITE DENYOOM] ONE_KEY, "string" "2.0.0" => strings::setex;
            /// Gives a key a value for some milliseconds.
            "psetex" (4) [WRITE DENYOOM] ONE_KEY, "string" "2.6.0" => strings::psetex;
            /// Shows the value of a key and changes when it expires.
            "getex" (-2) [WRITE FAST] ONE_KEY, "string" "6.2.0" => strings::getex;
            /// Shows the value of a key and deletes it.
            "getdel" (2) [WRITE FAST] ONE_KEY, "string" "6.2.0" => strings::getdel;
            /// Shows the value of a key and gives it another.
            "getset" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => strings::getset;
            /// Shows the values of several keys.
            "mget" (-2) [READONLY FAST] ALL_KEYS, "string" "1.0.0" => strings::mget;
            /// Gives several keys values.
            "mset" (-3) [WRITE DENYOOM] PAIRS, "string" "1.0.1" => strings::mset;
            /// Gives several keys values, if all of them are absent.
            "msetnx" (-3) [WRITE DENYOOM] PAIRS, "string" "1.0.1" => strings::msetnx;
            /// Shows the length of a value.
            "strlen" (2) [READONLY FAST] ONE_KEY, "string" "2.2.0" => ranges::strlen;
            /// Shows a part of a value.
            "getrange" (4) [READONLY] ONE_KEY, "string" "2.4.0" => ranges::getrange;
            /// Shows a part of a value.
            "substr" (4) [READONLY] ONE_KEY, "string" "1.0.0" => ranges::getrange;
            /// Overwrites a part of a value.
            "setrange" (4) [WRITE DENYOOM] ONE_KEY, "string" "2.2.0" => ranges::setrange;
            /// Appends to a value.
            "append" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "2.0.0" => ranges::append;
            /// Adds one to a value.
            "incr" (2) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => counters::incr;
            /// Subtracts one from a value.
            "decr" (2) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => counters::decr;
            /// Adds an integer to a value.
            "incrby" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => counters::incrby;
            /// Subtracts an integer from a value.
            "decrby" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "1.0.0" => counters::decrby;
            /// Adds a number to a value.
            "incrbyfloat" (3) [WRITE DENYOOM FAST] ONE_KEY, "string" "2.6.0" => counters::incrbyfloat;
            /// Finds the longest common subsequence of two values.
            "lcs" (-3) [READONLY] TWO_KEYS, "string" "7.0.0" => lcs::lcs;
            /// Shows a bit of a value.
            "getbit" (3) [READONLY FAST] ONE_KEY, "bitmap" "2.2.0" => bits::getbit;
            /// Changes a bit of a value.
            "setbit" (4) [WRITE DENYOOM] ONE_KEY, "bitmap" "2.2.0" => bits::setbit;
            /// Counts the bits of a value that are set.
            "bitcount" (-2) [READONLY] ONE_KEY, "bitmap" "2.6.0" => bits::bitcount;
            /// Finds the first bit of a value that is set, or is not.
            "bitpos" (-3) [READONLY] ONE_KEY, "bitmap" "2.8.7" => bits::bitpos;
            /// Combines the bits of several values.
            "bitop" (-4) [WRITE DENYOOM] Keys(2, -1, 1), "bitmap" "2.6.0" => bits::bitop;
            /// Shows and changes integers of any width in a value.
            "bitfield" (-2) [WRITE DENYOOM] ONE_KEY, "bitmap" "3.2.0" => bitfield::bitfield;
            /// Shows integers of any width in a value.
            "bitfield_ro" (-2) [READONLY FAST] ONE_KEY, "bitmap" "6.0.0" => bitfield::bitfield_ro;
            /// Deletes keys.
            "unlink" (-2) [WRITE FAST] ALL_KEYS, "generic" "4.0.0" => generic::del;
            /// Counts the keys that exist.
            "exists" (-2) [READONLY FAST] ALL_KEYS, "generic" "1.0.0" => generic::exists;
            /// Remembers keys as used, and counts those that exist.
            "touch" (-2) [READONLY FAST] ALL_KEYS, "generic" "3.2.1" => generic::touch;
            /// Shows the type of a value, which is always string.
            "type" (2) [READONLY FAST] ONE_KEY, "generic" "1.0.0" => generic::type_of;
            /// Gives a key another name.
            "rename" (3) [WRITE] TWO_KEYS, "generic" "1.0.0" => generic::rename;
            /// Gives a key another name that is not taken.
            "renamenx" (3) [WRITE FAST] TWO_KEYS, "generic" "1.0.0" => generic::renamenx;
            /// Copies value and expiry of a key to another.
            "copy" (-3) [WRITE DENYOOM] TWO_KEYS, "generic" "6.2.0" => generic::copy;
            /// Moves a key to another database.
            "move" (3) [WRITE FAST] ONE_KEY, "generic" "1.0.0" => generic::move_to;
            /// Shows a key at random.
            "randomkey" (1) [READONLY] NO_KEYS, "generic" "1.0.0" => scan::randomkey;
            /// Shows all keys that match a pattern.
            "keys" (2) [READONLY] NO_KEYS, "generic" "1.0.0" => scan::keys;
            /// Shows the keys a few at a time.
            "scan" (-2) [READONLY] NO_KEYS, "generic" "2.8.0" => scan::scan;
            /// Makes a key expire after some seconds.
            "expire" (-3) [WRITE FAST] ONE_KEY, "generic" "1.0.0" => expiry::expire;
            /// Makes a key expire after some milliseconds.
            "pexpire" (-3) [WRITE FAST] ONE_KEY, "generic" "2.6.0" => expiry::pexpire;
            /// Makes a key expire at a time, in seconds.
            "expireat" (-3) [WRITE FAST] ONE_KEY, "generic" "1.2.0" => expiry::expireat;
            /// Makes a key expire at a time, in milliseconds.
            "pexpireat" (-3) [WRITE FAST] ONE_KEY, "generic" "2.6.0" => expiry::pexpireat;
            /// Shows the seconds until a key expires.
            "ttl" (2) [READONLY FAST] ONE_KEY, "generic" "1.0.0" => expiry::ttl;
            /// Shows the milliseconds until a key expires.
            "pttl" (2) [READONLY FAST] ONE_KEY, "generic" "2.6.0" => expiry::pttl;
            /// Shows when a key expires, in seconds.
            "expiretime" (2) [READONLY FAST] ONE_KEY, "generic" "7.0.0" => expiry::expiretime;
            /// Shows when a key expires, in milliseconds.
            "pexpiretime" (2) [READONLY FAST] ONE_KEY, "generic" "7.0.0" => expiry::pexpiretime;
            /// Makes a key stay.
            "persist" (2) [WRITE FAST] ONE_KEY, "generic" "2.2.0" => expiry::persist;
            /// Shows what is known of a key.
            "object" (-2) [CONTAINER] NO_KEYS, "generic" "2.2.3" => objects::container;
            /// Shows how Redis would keep a value.
            "object|encoding" (3) [READONLY] Keys(2, 2, 1), "generic" "2.2.3" => objects::encoding;
            /// Shows how often a key has been used.
            "object|freq" (3) [READONLY] Keys(2, 2, 1), "generic" "4.0.0" => objects::freq;
            /// Explains the subcommands.
            "object|help" (2) [LOADING STALE] NO_KEYS, "generic" "6.2.0" => objects::help;
            /// Shows the seconds since a key was used.
            "object|idletime" (3) [READONLY] Keys(2, 2, 1), "generic" "2.2.3" => objects::idletime;
            /// Shows how often Redis would refer to a value.
            "object|refcount" (3) [READONLY] Keys(2, 2, 1), "generic" "2.2.3" => objects::refcount;
            /// Shows what memory is used for.
            "memory" (-2) [CONTAINER] NO_KEYS, "server" "4.0.0" => objects::container;
            /// Explains the subcommands.
            "memory|help" (2) [LOADING STALE] NO_KEYS, "server" "4.0.0" => objects::memory_help;
            /// Shows statistics of the allocator.
            "memory|malloc-stats" (2) [] NO_KEYS, "server" "4.0.0" => objects::malloc_stats;
            /// Gives memory back.
            "memory|purge" (2) [] NO_KEYS, "server" "4.0.0" => objects::memory_purge;
            /// Shows how much memory is used.
            "memory|stats" (2) [] NO_KEYS, "server" "4.0.0" => objects::memory_stats;
            /// Shows the memory that a key takes.
            "memory|usage" (-3) [READONLY] Keys(2, 2, 1), "server" "4.0.0" => objects::memory_usage;
            /// Deletes all keys of all databases.
            "flushall" (-1) [WRITE] NO_KEYS, "server" "1.0.0" => scan::flushall;
            /// Deletes all keys of the database.
            "flushdb" (-1) [WRITE] NO_KEYS, "server" "1.0.0" => scan::flushdb;
            /// Synchronously saves the database to disk.
            "save" (1) [ADMIN NOSCRIPT NO_ASYNC_LOADING NO_MULTI] NO_KEYS, "server" "1.0.0" => persistence::save;
            /// Asynchronously saves the database to disk.
            "bgsave" (-1) [ADMIN NOSCRIPT NO_ASYNC_LOADING] NO_KEYS, "server" "1.0.0" => persistence::bgsave;
            /// Starts a transaction.
            "multi" (1) [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NO_KEYS, "transactions" "1.2.0" => transactions::multi;
            /// Executes all commands in a transaction.
            "exec" (1) [NOSCRIPT LOADING STALE SKIP_SLOWLOG] NO_KEYS, "transactions" "1.2.0" => exec;
            /// Discards a transaction.
            "discard" (1) [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NO_KEYS, "transactions" "2.0.0" => transactions::discard;
            /// Monitors changes to keys to determine the execution of a transaction.
            "watch" (-2) [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] ALL_KEYS, "transactions" "2.2.0" => transactions::watch;
            /// Forgets about watched keys of a transaction.
            "unwatch" (1) [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NO_KEYS, "transactions" "2.2.0" => transactions::unwatch;
            /// Answers, to show that the server does.
            "ping" (-1) [FAST] NO_KEYS, "connection" "1.0.0" => connection::ping;
            /// Says the same.
            "echo" (2) [LOADING STALE FAST] NO_KEYS, "connection" "1.0.0" => connection::echo;
            /// Ends the connection.
            "quit" (-1) [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NO_KEYS, "connection" "1.0.0" => connection::quit;
            /// Makes the connection as good as new.
            "reset" (1) [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NO_KEYS, "connection" "6.2.0" => connection::reset;
            /// Chooses a version of the protocol, and may log in and name the connection.
            "hello" (-1) [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NO_KEYS, "connection" "6.0.0" => connection::hello;
            /// Logs in.
            "auth" (-2) [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NO_KEYS, "connection" "1.0.0" => connection::auth;
            /// Chooses a database.
            "select" (2) [LOADING STALE FAST] NO_KEYS, "connection" "1.0.0" => connection::select;
            /// Commands about connections.
            "client" (-2) [CONTAINER] NO_KEYS, "connection" "2.4.0" => help::container;
            /// Switches tracking of the next command's keys: tracking is not offered.
            "client|caching" (3) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "6.0.0" => client::caching;
            /// The name of this connection.
            "client|getname" (2) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "2.6.9" => client::getname;
            /// Shows where notices of changed keys are sent: nowhere.
            "client|getredir" (2) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "6.0.0" => client::getredir;
            /// Lists the subcommands.
            "client|help" (2) [LOADING STALE] NO_KEYS, "connection" "5.0.0" => help::help;
            /// The number of this connection.
            "client|id" (2) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "5.0.0" => client::id;
            /// Shows the line of CLIENT LIST about this connection.
            "client|info" (2) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "6.2.0" => client::info;
            /// Closes connections.
            "client|kill" (-3) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "connection" "2.4.0" => client::kill;
            /// Lists connections.
            "client|list" (-2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "connection" "2.4.0" => client::list;
            /// Kept in the connection's flags; the server never closes a client to free memory.
            "client|no-evict" (3) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "connection" "7.0.0" => client::no_evict;
            /// Chooses if reading a key counts as a use of it.
            "client|no-touch" (3) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "7.2.0" => client::no_touch;
            /// Lets commands wait for a while.
            "client|pause" (-3) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "connection" "2.9.50" => client::pause;
            /// Chooses if commands are answered.
            "client|reply" (3) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "3.2.0" => client::reply;
            /// Says which library this client uses.
            "client|setinfo" (4) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "7.2.0" => client::setinfo;
            /// Names this connection.
            "client|setname" (3) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "2.6.9" => client::setname;
            /// Notices of changed keys, for caches at clients: can only be switched off.
            "client|tracking" (-3) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "6.0.0" => client::tracking;
            /// Says that this connection is sent no notices of changed keys.
            "client|trackinginfo" (2) [NOSCRIPT LOADING STALE] NO_KEYS, "connection" "6.2.0" => client::trackinginfo;
            /// Ends the wait of a client in a blocking command: no command blocks.
            "client|unblock" (-3) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "connection" "5.0.0" => client::unblock;
            /// Ends CLIENT PAUSE.
            "client|unpause" (2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "connection" "6.2.0" => client::unpause;
            /// Describes all commands.
            "command" (-1) [LOADING STALE CONTAINER] NO_KEYS, "server" "2.8.13" => command_info::all;
            /// The number of commands.
            "command|count" (2) [LOADING STALE] NO_KEYS, "server" "2.8.13" => command_info::count;
            /// Shows the purpose and the arguments of commands.
            "command|docs" (-2) [LOADING STALE] NO_KEYS, "server" "7.0.0" => command_info::docs;
            /// The keys among the arguments of a command.
            "command|getkeys" (-4) [LOADING STALE] NO_KEYS, "server" "2.8.13" => command_info::getkeys;
            /// The keys among the arguments of a command, and what it does to them.
            "command|getkeysandflags" (-4) [LOADING STALE] NO_KEYS, "server" "7.0.0" => command_info::getkeys_and_flags;
            /// Lists the subcommands.
            "command|help" (2) [LOADING STALE] NO_KEYS, "server" "5.0.0" => help::help;
            /// Describes some commands.
            "command|info" (-2) [LOADING STALE] NO_KEYS, "server" "2.8.13" => command_info::info;
            /// The names of commands.
            "command|list" (-2) [LOADING STALE] NO_KEYS, "server" "7.0.0" => command_info::list;
            /// Commands about settings.
            "config" (-2) [CONTAINER] NO_KEYS, "server" "2.0.0" => help::container;
            /// Settings that match patterns.
            "config|get" (-3) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.0.0" => config::get;
            /// Lists the subcommands.
            "config|help" (2) [LOADING STALE] NO_KEYS, "server" "5.0.0" => help::help;
            /// Begins to count anew.
            "config|resetstat" (2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.0.0" => config::resetstat;
            /// Writes settings to the configuration file: there is none.
            "config|rewrite" (2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.8.0" => config::rewrite;
            /// Changes settings, all of them or none.
            "config|set" (-4) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.0.0" => config::set;
            /// Shows information about the server.
            "info" (-1) [LOADING STALE] NO_KEYS, "server" "1.0.0" => info::info;
            /// Shows when the keys were last saved.
            "lastsave" (1) [LOADING STALE FAST] NO_KEYS, "server" "1.0.0" => persistence::lastsave;
            /// The server's clock.
            "time" (1) [LOADING STALE FAST] NO_KEYS, "server" "2.6.0" => server::time;
            /// The server's role in replication: a master without replicas.
            "role" (1) [NOSCRIPT LOADING STALE FAST] NO_KEYS, "server" "2.8.12" => server::role;
            /// The version of Redis that is spoken.
            "lolwut" (-1) [READONLY FAST] NO_KEYS, "server" "5.0.0" => server::lolwut;
            /// The number of keys in this database.
            "dbsize" (1) [READONLY FAST] NO_KEYS, "server" "1.0.0" => scan::dbsize;
            /// The number of replicas that have seen everything: none.
            "wait" (3) [NOSCRIPT] NO_KEYS, "generic" "3.0.0" => server::wait;
            /// Becomes a replica: only NO ONE is offered.
            "replicaof" (3) [ADMIN NOSCRIPT STALE NO_ASYNC_LOADING] NO_KEYS, "server" "5.0.0" => server::replicaof;
            /// The old name of REPLICAOF.
            "slaveof" (3) [ADMIN NOSCRIPT STALE NO_ASYNC_LOADING] NO_KEYS, "server" "1.0.0" => server::replicaof;
            /// Stops the server once everything has been answered.
            "shutdown" (-1) [ADMIN NOSCRIPT LOADING STALE NO_MULTI ALLOW_BUSY] NO_KEYS, "server" "1.0.0" => server::shutdown;
            /// Helps tests: SLEEP and SET-ACTIVE-EXPIRE.
            "debug" (-2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "1.0.0" => debug::debug;
            /// Commands about slow commands.
            "slowlog" (-2) [CONTAINER] NO_KEYS, "server" "2.2.12" => help::container;
            /// The latest slow commands.
            "slowlog|get" (-2) [ADMIN LOADING STALE] NO_KEYS, "server" "2.2.12" => slowlog::get;
            /// Lists the subcommands.
            "slowlog|help" (2) [LOADING STALE] NO_KEYS, "server" "6.2.0" => help::help;
            /// The number of slow commands that are remembered.
            "slowlog|len" (2) [ADMIN LOADING STALE] NO_KEYS, "server" "2.2.12" => slowlog::len;
            /// Forgets them.
            "slowlog|reset" (2) [ADMIN LOADING STALE] NO_KEYS, "server" "2.2.12" => slowlog::reset;
            /// Commands about delays.
            "latency" (-2) [CONTAINER] NO_KEYS, "server" "2.8.13" => help::container;
            /// Says in words what has been slow.
            "latency|doctor" (2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.8.13" => latency::doctor;
            /// Draws how slow something has been.
            "latency|graph" (3) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.8.13" => latency::graph;
            /// Lists the subcommands.
            "latency|help" (2) [LOADING STALE] NO_KEYS, "server" "2.8.13" => help::help;
            /// Shows histograms of the time that commands have taken.
            "latency|histogram" (-2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "7.0.0" => latency::histogram;
            /// Shows the delays of one event.
            "latency|history" (3) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.8.13" => latency::history;
            /// The latest delays of each kind.
            "latency|latest" (2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.8.13" => latency::latest;
            /// Forgets delays.
            "latency|reset" (-2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "2.8.13" => latency::reset;
            /// Commands about functions, of which there are none.
            "function" (-2) [CONTAINER] NO_KEYS, "scripting" "7.0.0" => help::container;
            /// Deletes a library of functions: there is none.
            "function|delete" (3) [WRITE NOSCRIPT] NO_KEYS, "scripting" "7.0.0" => scripting::function_delete;
            /// Deletes all libraries of functions: there is none.
            "function|flush" (-2) [WRITE NOSCRIPT] NO_KEYS, "scripting" "7.0.0" => scripting::function_flush;
            /// Lists the subcommands.
            "function|help" (2) [LOADING STALE] NO_KEYS, "scripting" "7.0.0" => help::help;
            /// Stops a function that runs: none does.
            "function|kill" (2) [NOSCRIPT ALLOW_BUSY] NO_KEYS, "scripting" "7.0.0" => scripting::nothing_runs;
            /// Lists libraries of functions: there is none.
            "function|list" (-2) [NOSCRIPT] NO_KEYS, "scripting" "7.0.0" => scripting::function_list;
            /// Says which function runs: none does.
            "function|stats" (2) [NOSCRIPT ALLOW_BUSY] NO_KEYS, "scripting" "7.0.0" => scripting::function_stats;
            /// Commands about scripts, of which there are none.
            "script" (-2) [CONTAINER] NO_KEYS, "scripting" "2.6.0" => help::container;
            /// Shows which scripts exist: none does.
            "script|exists" (-3) [NOSCRIPT] NO_KEYS, "scripting" "2.6.0" => scripting::script_exists;
            /// Forgets all scripts: there is none.
            "script|flush" (-2) [NOSCRIPT] NO_KEYS, "scripting" "2.6.0" => scripting::script_flush;
            /// Lists the subcommands.
            "script|help" (2) [LOADING STALE] NO_KEYS, "scripting" "5.0.0" => help::help;
            /// Stops a script that runs: none does.
            "script|kill" (2) [NOSCRIPT ALLOW_BUSY] NO_KEYS, "scripting" "2.6.0" => scripting::nothing_runs;
            /// Commands about users, of which there is one.
            "acl" (-2) [CONTAINER] NO_KEYS, "server" "6.0.0" => help::container;
            /// Categories of commands, or the commands of one.
            "acl|cat" (-2) [NOSCRIPT LOADING STALE] NO_KEYS, "server" "6.0.0" => acl::cat;
            /// Shows the rights of a user.
            "acl|getuser" (3) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "6.0.0" => acl::getuser;
            /// Lists the subcommands.
            "acl|help" (2) [LOADING STALE] NO_KEYS, "server" "6.0.0" => help::help;
            /// Shows the rights of all users.
            "acl|list" (2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "6.0.0" => acl::list;
            /// The names of users.
            "acl|users" (2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "6.0.0" => acl::users;
            /// The name of this connection's user.
            "acl|whoami" (2) [NOSCRIPT LOADING STALE] NO_KEYS, "server" "6.0.0" => acl::whoami;
            /// Commands for clients that know clusters only; see --cluster.
            "cluster" (-2) [CONTAINER] NO_KEYS, "cluster" "3.0.0" => help::container;
            /// The number of keys in a slot.
            "cluster|countkeysinslot" (3) [STALE] NO_KEYS, "cluster" "3.0.0" => cluster::count_keys_in_slot;
            /// Some keys in a slot.
            "cluster|getkeysinslot" (4) [STALE] NO_KEYS, "cluster" "3.0.0" => cluster::get_keys_in_slot;
            /// Lists the subcommands.
            "cluster|help" (2) [LOADING STALE] NO_KEYS, "cluster" "5.0.0" => help::help;
            /// The state of the cluster: one node, and all is well.
            "cluster|info" (2) [STALE] NO_KEYS, "cluster" "3.0.0" => cluster::info;
            /// The slot of a key.
            "cluster|keyslot" (3) [STALE] NO_KEYS, "cluster" "3.0.0" => cluster::keyslot;
            /// Connections to other nodes: there are none.
            "cluster|links" (2) [STALE] NO_KEYS, "cluster" "7.0.0" => cluster::links;
            /// The name of this node.
            "cluster|myid" (2) [STALE] NO_KEYS, "cluster" "3.0.0" => cluster::myid;
            /// Lists the nodes: this one.
            "cluster|nodes" (2) [STALE] NO_KEYS, "cluster" "3.0.0" => cluster::nodes;
            /// Shows the slots of each node: this one has all.
            "cluster|shards" (2) [STALE] NO_KEYS, "cluster" "7.0.0" => cluster::shards;
            /// Shows the slots of each node, in the older form.
            "cluster|slots" (2) [STALE] NO_KEYS, "cluster" "3.0.0" => cluster::slots;
            /// Follows an ASK redirection: there are none.
            "asking" (1) [FAST] NO_KEYS, "cluster" "3.0.0" => cluster::accept;
            /// Reading from replicas will do: there are none.
            "readonly" (1) [LOADING STALE FAST] NO_KEYS, "cluster" "3.0.0" => cluster::accept;
            /// Takes READONLY back.
            "readwrite" (1) [LOADING STALE FAST] NO_KEYS, "cluster" "3.0.0" => cluster::accept;
            /// Shows the number of commands and their time in the server, since the last PERF RESET.
            "perf" (-1) [ADMIN NOSCRIPT LOADING STALE CONTAINER] NO_KEYS, "server" "7.0.15" => perf::report;
            /// Lists the subcommands.
            "perf|help" (2) [LOADING STALE] NO_KEYS, "server" "7.0.15" => help::help;
            /// Begins to measure anew.
            "perf|reset" (2) [ADMIN NOSCRIPT LOADING STALE] NO_KEYS, "server" "7.0.15" => perf::reset;
        }
    };
}

pub(crate) use with_command_rows;
