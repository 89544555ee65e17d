#!/bin/busybox sh
# First process of the guest: every server on every driver, with the kernel's TLS. Its last line is the verdict.
/bin/busybox --install -s /bin
export PATH=/bin LD_LIBRARY_PATH=/lib
mount -t proc proc /proc
mount -t devtmpfs dev /dev
mount -t sysfs sys /sys
mount -t tmpfs tmp /tmp
ip link set lo up
ulimit -n 4096
while read -r module; do insmod "$module" || echo "insmod $module failed"; done < /etc/modules
uname -sr

failures=0
fail() {
    echo "FAILED: $where: $*"
    failures=$((failures + 1))
}

mkdir -p /tmp/site
head -c 3000000 /dev/urandom > /tmp/site/large.bin
head -c 100000 /dev/urandom > /tmp/site/middle.bin
head -c 1000 /dev/urandom > /tmp/site/small.bin
digest() { sha256sum | cut -d ' ' -f 1; }
of_file() { digest < "/tmp/site/$1"; }
large=$(of_file large.bin) middle=$(of_file middle.bin) small=$(of_file small.bin)
range=$(tail -c +1000001 /tmp/site/large.bin | head -c 1000000 | digest)

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout /tmp/key.pem -out /tmp/cert.pem 2> /tmp/openssl.log || cat /tmp/openssl.log
base=https://localhost:8443

# fetch WHAT WANTED CURL-OPTION… URL: the digest of what curl gets.
fetch() {
    what=$1 wanted=$2
    shift 2
    got=$(curl -sS --max-time 300 --cacert /tmp/cert.pem "$@" 2> /tmp/curl.log | digest)
    [ "$got" = "$wanted" ] || fail "$what: other bytes: $(cat /tmp/curl.log)"
}

counted() { curl -s "http://127.0.0.1:8090/metrics" | grep "tls_kernel_connections_total" | grep -v '^#' | cut -d ' ' -f 2; }

# talk NAME (LINE CONDITION)…: an openssl client that says one line after the other, each when the condition behind the one before holds.
talk() {
    name=$1
    shift
    : > "/tmp/$name.out"
    : > "/tmp/$name.err"
    while [ $# -gt 0 ]; do
        printf "$1"
        for _ in $(seq 300); do
            eval "$2" && break
            sleep 0.2
        done
        shift 2
    done | openssl s_client -connect 127.0.0.1:8443 -CAfile /tmp/cert.pem >> "/tmp/$name.out" 2>> "/tmp/$name.err"
}
has_got() { [ "$(wc -c < "/tmp/$name.out")" -gt "$1" ]; }
has_said() { grep -a -q "$1" "/tmp/$name.err" "/tmp/$name.out"; }

check_fetches() {
    fetch "HTTP/1.1, TLS 1.3" "$large" --http1.1 $base/large.bin
    fetch "three on one connection" "$(cat /tmp/site/large.bin /tmp/site/small.bin /tmp/site/middle.bin | digest)" \
        --http1.1 $base/large.bin $base/small.bin $base/middle.bin
    fetch "a small file" "$small" --http1.1 $base/small.bin
    fetch "a range" "$range" --http1.1 -r 1000000-1999999 $base/large.bin
    fetch "HTTP/2" "$(cat /tmp/site/large.bin /tmp/site/middle.bin | digest)" --http2 $base/large.bin $base/middle.bin
    fetch "a client that reads slowly" "$middle" --http1.1 --limit-rate 60k $base/middle.bin
    for cipher in ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-ECDSA-CHACHA20-POLY1305; do
        fetch "TLS 1.2 $cipher" "$large" --http1.1 --tls-max 1.2 --ciphers $cipher $base/large.bin
    done
    for cipher in TLS_AES_128_GCM_SHA256 TLS_CHACHA20_POLY1305_SHA256; do
        fetch "TLS 1.3 $cipher" "$large" --http1.1 --tls13-ciphers $cipher $base/large.bin
    done
    # One is small, and a connection is counted once: eleven commands, of which ten have a large file or one of 100,000 bytes.
    count=$(counted)
    [ "$count" = 10 ] || fail "$count connections instead of 10 were the kernel's"
}

check_ends() {
    talk end 'GET /large.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' 'has_said ^closed' &
    talks=$!
    talk key_update 'GET /middle.bin HTTP/1.1\r\nHost: localhost\r\n\r\n' 'has_got 100000' 'k\n' 'has_said KEYUPDATE' \
        'GET /middle.bin HTTP/1.1\r\nHost: localhost\r\n\r\n' 'has_got 200000' \
        'GET /small.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' 'has_said ^closed' &
    talks="$talks $!"
    talk update_requested 'GET /middle.bin HTTP/1.1\r\nHost: localhost\r\n\r\n' 'has_got 100000' 'K\n' 'has_said ^closed' &
    for talk in $talks $!; do wait "$talk"; done
    grep -q 'unexpected eof' /tmp/end.err && fail "no close_notify after a reply that ends the connection"
    grep -q 'unexpected eof' /tmp/key_update.err && fail "no close_notify after an update of keys"
    count=$(grep -a -c 'HTTP/1.1 200' /tmp/key_update.out)
    [ "$count" = 3 ] || fail "$count of 3 replies around an update of keys: $(tail -n 3 /tmp/key_update.err)"
    grep -q KEYUPDATE /tmp/key_update.err /tmp/key_update.out || fail "openssl has not updated its keys"
    grep -q 'unexpected eof' /tmp/update_requested.err && fail "no close_notify for a client that wants new keys"
    grep -q '^closed' /tmp/update_requested.out || fail "a client that wants new keys of the server's is not sent away"
}

check_sendfile() {
    strace -f -qq -e trace=sendfile -o /tmp/trace -p "$pid" 2> /dev/null &
    tracer=$!
    sleep 3
    fetch "traced" "$large" --http1.1 $base/large.bin
    kill $tracer
    wait $tracer 2> /dev/null
    calls=$(grep -c 'sendfile(.* = [1-9]' /tmp/trace)
    echo "  sendfile: $calls calls"
    case $1 in
        tokio-uring) [ "$calls" = 0 ] || fail "$calls calls of sendfile" ;;
        *) [ "$calls" -gt 0 ] || fail "no sendfile" ;;
    esac
}

run() {
    server=$1 driver=$2 where="$1 $2"
    # That the one before was ready says nothing.
    : > /tmp/server.out
    began=$(cut -d ' ' -f 1 /proc/uptime)
    "$server" --driver "$driver" --threads 2 --ktls on --tls-listen 127.0.0.1:8443 --tls-cert /tmp/cert.pem --tls-key /tmp/key.pem \
        --metrics 127.0.0.1:8090 /tmp/site > /tmp/server.out 2> /tmp/server.err &
    pid=$!
    for _ in $(seq 100); do
        grep -q https /tmp/server.out && break
        sleep 0.3
    done
    check_fetches
    check_sendfile "$driver"
    [ "$server" = http-server ] && check_ends
    kill $pid
    wait $pid || fail "exit status $?: $(tail -n 5 /tmp/server.err)"
    echo "$where: done ($began to $(cut -d ' ' -f 1 /proc/uptime) s)"
}

# --list-backends has a paragraph for each choice.
DRIVERS=${DRIVERS:-$(http-server --list-backends | sed -n '/^driver /,/^[^ d]/s/^  \([a-z-]*\) .*/\1/p')}
echo "drivers:" $DRIVERS
for server in $SERVERS; do
    for driver in $DRIVERS; do
        run "$server" "$driver"
    done
done
grep . /proc/net/tls_stat
[ $failures = 0 ] && echo "VERDICT: passed" || echo "VERDICT: $failures failures"
poweroff -f
