//! What the original of each server printed.

use super::{Part, Quoted, QuotedRow};

pub(super) const SERVED: Part = Part {
    server: "http-server",
    filter: "driver=pool|epoll|reactor|uring",
    workloads: &["original-c10000", "original-c1000"],
    quotes: Some(Quoted {
        source: "What wrk printed for the original: 8 threads, 10,000 connections over loopback, 20 s, 1,687 bytes per response, server and wrk together on its author's machine, which \
                 is not known. wrk's mean leaves out what ran into its timeout of 2 s. Here a request that is not answered is an error, and a visit with errors is no figure. Our `pool` \
                 keeps a worker for each connection as long as the connection is kept, so that it has 1,000 connections.",
        workload: "original-c10000",
        rows: &[
            QuotedRow::rate("http-server/pool", "thread pool (1,170 timeouts, 270 read errors)", 4_601.36, 78.96),
            QuotedRow::rate("http-server/epoll", "epoll (1,677 timeouts)", 33_886.3, 71.94),
            QuotedRow {
                workload: Some("original-c1000"),
                ..QuotedRow::none("http-server/pool", "thread pool: not printed for 1,000 connections")
            },
        ],
    }),
};

pub(super) const STORED: Part = Part {
    server: "kvcache",
    filter: "driver=epoll|uring",
    workloads: &[
        "original-get",
        "original-get-P100",
        "original-set-P100",
        "original-del-P100",
        "original-workflow-P100",
    ],
    quotes: Some(Quoted {
        source: "What the original's author wrote of it and of Redis under the same test: \"more than\" so many requests per second of his own server (the workflow: \"around\"), \"around\" so \
                 many of Redis; 96 client processes over loopback, 100 requests at a time where pipelined, server and clients together on all cores of a high-end desktop machine whose \
                 cores he does not number. Without pipelining he gives one figure for all requests. Here both servers have one core; ours is asked in the original's protocol and Redis in \
                 RESP, as there.",
        workload: "original-get",
        rows: &[
            QuotedRow::throughput("original-get", "kvcache/epoll", "the original, all requests", 100_000.0),
            QuotedRow::throughput("original-get", "redis", "Redis, all requests", 120_000.0),
            QuotedRow::throughput("original-get-P100", "kvcache/epoll", "the original, GET", 1_500_000.0),
            QuotedRow::throughput("original-get-P100", "redis", "Redis, GET", 900_000.0),
            QuotedRow::throughput("original-set-P100", "kvcache/epoll", "the original, SET", 1_000_000.0),
            QuotedRow::throughput("original-set-P100", "redis", "Redis, SET", 650_000.0),
            QuotedRow::throughput("original-del-P100", "kvcache/epoll", "the original, DEL", 1_500_000.0),
            QuotedRow::throughput("original-del-P100", "redis", "Redis, DEL", 900_000.0),
            QuotedRow::throughput("original-workflow-P100", "kvcache/epoll", "the original, workflow", 3_000_000.0),
            QuotedRow::throughput("original-workflow-P100", "redis", "Redis, workflow", 1_250_000.0),
        ],
    }),
};

pub(super) const FILES: Part = Part {
    server: "fileserver",
    filter: "driver=epoll,request-map=std,cache-map=std|none,eviction=mutex|none,backend=fs,layout=zotero;\
             driver=epoll|uring,request-map=slab,cache-map=hashbrown|sparse,eviction=lockfree,backend=fs,layout=zotero;\
             driver=epoll|uring,request-map=slab,cache-map=none,eviction=none,backend=fs,layout=zotero",
    workloads: &["original-10x30", "original-mixed"],
    quotes: Some(Quoted {
        source: "The original's own table: round trips of 10 requestors and 30 documents over loopback, on its author's machine, with documents that are not known. \
                 Its averages are too low: it cut each time down to whole milliseconds before it summed them; and it left out connecting and the end of the connection, \
                 which are counted here. Its documents and its machine being others, too, only its order can be compared.",
        workload: "original-10x30",
        rows: &[
            QuotedRow::times(
                "fileserver/epoll/request-map=std/cache-map=none/mutex",
                "epoll, umap, mutex, none, filesystem",
                0.51,
                26.26,
            ),
            QuotedRow::times(
                "fileserver/epoll/request-map=std/cache-map=std/mutex",
                "epoll, umap, mutex, umap, filesystem",
                1.10,
                46.33,
            ),
            QuotedRow::times(
                "fileserver/epoll/request-map=std/cache-map=none/eviction=none",
                "epoll, umap, none, none, filesystem",
                0.30,
                22.25,
            ),
            QuotedRow::times(
                "fileserver/epoll/request-map=std/cache-map=std/eviction=none",
                "epoll, umap, none, umap, filesystem",
                0.58,
                23.37,
            ),
        ],
    }),
};

pub(super) const CACHED: Part = Part {
    server: "zerocopy",
    filter: "driver=epoll,strategy=sendfile|pipe|vmsplice|auto;driver=uring,strategy=auto|uring",
    workloads: &["cached-26KB-c500", "cached-26KB-c500-close"],
    quotes: Some(Quoted {
        source: "What ab printed for the original, a plugin of the web server Monkey: ab -c500 for a page of 26,510 bytes, a connection for each request, over loopback on its author's \
                 machine, with the plugin off (which is Monkey's sendfile) and on (a page of that size lay in a pipe). A time is that of a request with 500 under way.",
        workload: "cached-26KB-c500-close",
        rows: &[
            QuotedRow::rate("zerocopy/epoll/sendfile", "Monkey 1.3.0, without the cache plugin", 2_488.75, 200.904),
            QuotedRow::rate("zerocopy/epoll/pipe", "Monkey 1.3.0, with the cache plugin", 2_536.79, 197.1),
        ],
    }),
};

pub(super) const QUEUED: Part = Part {
    server: "mq-server",
    filter: "dispatch=sequential|thread-per-request|handoff|pool,copy=read-write;dispatch=thread-per-request|pool|event,copy=splice|tee",
    workloads: &["large-20x-read", "large-20x-splice"],
    quotes: Some(Quoted {
        source: "What the original printed: how long it took until 20 clients had received and thrown away one file of 1.7 GiB, each answer copied through a buffer of 128 KiB, on its \
                 author's machine (four cores, server and clients on all of them; here each has one). Its pool 1 lost requests that came while all workers were busy. Here the file is as \
                 long, or 256 MiB with --quick; the clients read into a buffer of the same size.",
        workload: "large-20x-read",
        rows: &[
            QuotedRow::total("mq-server/sequential/read-write", "single-threaded", 11_043.2),
            QuotedRow::total("mq-server/thread-per-request/read-write", "multi-threaded (no thread pool)", 5_851.8),
            QuotedRow::total("mq-server/handoff/read-write", "multi-threaded (thread pool 1)", 5_843.2),
            QuotedRow::total("mq-server/pool/read-write", "multi-threaded (thread pool 2)", 5_891.3),
        ],
    }),
};
