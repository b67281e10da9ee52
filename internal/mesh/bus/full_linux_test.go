package bus

import (
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// TestStorageFails has the hub's files reach a limit of the system, as on a full disk, and removes the limit. The hub
// logs the failure, and stores messages again without a restart. Earlier messages are still there.
func TestStorageFails(t *testing.T) {
	s := newSite(t)
	last := func() uint64 {
		js, err := s.own.Streams(t.Context())
		if err != nil {
			return 0
		}
		stream, err := js.Stream(t.Context(), s.own.Names.DeltaStream())
		if err != nil {
			return 0
		}
		return stream.CachedInfo().State.LastSeq
	}
	send := func() {
		t.Helper()
		topic := wire.Topic{Kind: wire.KindDelta, Origin: s.id.hint()}
		if err := s.own.Publish(topic, make([]byte, 100_000)); err != nil {
			t.Fatal(err)
		}
	}
	send()
	await.True(t, "a stored message", func() bool { return last() == 1 })

	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	set := func(bytes uint64) {
		t.Helper()
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
	}
	signal.Ignore(syscall.SIGXFSZ) // the write fails instead
	defer signal.Reset(syscall.SIGXFSZ)
	set(400_000)
	defer set(limit.Cur)
	await.True(t, "a failed write", func() bool {
		send()
		return strings.Contains(s.log.String(), "the hub cannot store messages")
	})
	set(limit.Cur)
	var stored uint64
	await.True(t, "what was stored before", func() bool {
		stored = last()
		return stored > 0
	})
	await.True(t, "messages that are stored again", func() bool {
		send()
		<-time.After(10 * time.Millisecond)
		return last() > stored
	})
}
