# Runs a suite beside a server, with a loopback interface that is theirs alone: suites take the usual ports for granted.
# KVCACHE is the program, SERVER its arguments, SUITE what runs the suite.
ip link set lo up
# shellcheck disable=SC2086 # it is several arguments
"$KVCACHE" $SERVER &
server=$!
until (exec 3<>/dev/tcp/127.0.0.1/6379) 2>/dev/null; do
  kill -0 $server || exit 125
  sleep 0.05
done
timeout 900 bash -c "$SUITE"
status=$?
kill -0 $server || { echo "kvcache has ended" >&2; exit 125; }
exit $status
