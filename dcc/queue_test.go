package dcc

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
)

// stalled is a Counter whose counts wait until they may go on.
type stalled struct {
	bulkhead.Counter
	goOn chan struct{}
}

func (s *stalled) Count(ctx context.Context, sigs []bulkhead.Signature, n []uint32) error {
	select {
	case <-s.goOn:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Counter.Count(ctx, sigs, n)
}

// TestMoreReportsThanCanWait: while the disk is stalled, reports beyond the queue's limit get no
// answer and are not taken for counted. If they are sent again, each is counted once.
func TestMoreReportsThanCanWait(t *testing.T) {
	s := goldenServer()
	s.Writers, s.Memory = 1, door.NewMemory(1<<30)
	house := &stalled{bulkhead.CounterOf(s.Clearinghouse), make(chan struct{})}
	s.Clearinghouse = house
	address := serve(t, s)
	c := dialRaw(t, address)
	report := func(n, transmission uint32) []byte {
		p := unhex(t, goldenReport)
		binary.LittleEndian.PutUint32(p[16:], n)
		binary.LittleEndian.PutUint32(p[20:], transmission)
		sum := sign(goldenPasword, p[:len(p)-signatureSize])
		copy(p[len(p)-signatureSize:], sum[:])
		return p
	}
	sent := uint32(0)
	for full := time.Now().Add(time.Minute); s.Stats.Limited.Load() == 0 && sent < 50*maxQueued; sent++ {
		if _, err := c.Write(report(sent, 1)); err != nil {
			t.Fatal(err)
		}
		// Each is sent by itself: the smaller the batches, the sooner the queue is full.
		await.Within(time.Until(full), func() bool { return s.PacketStats().Received.Load() > int64(sent) })
	}
	if s.Stats.Limited.Load() == 0 {
		t.Fatalf("%d reports wait, limit %d batches", sent, maxQueued)
	}
	if _, held, _ := s.Memory.Usage(); held == 0 {
		t.Error("reports that wait hold no memory")
	}
	close(house.goOn)
	// A client repeats unanswered requests.
	answered := make(map[uint32]bool)
	buf := make([]byte, 2048)
	deadline := time.Now().Add(time.Minute)
	for transmission := uint32(2); len(answered) < int(sent) && time.Now().Before(deadline); transmission++ {
		for {
			c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			n, err := c.Read(buf)
			if err != nil {
				break
			}
			if Op(buf[3]) != Answer {
				t.Fatalf("answer %x", buf[:n])
			}
			answered[binary.LittleEndian.Uint32(buf[16:])] = true
		}
		for n, again := uint32(0), 0; n < sent && again < 64; n++ {
			if !answered[n] {
				c.Write(report(n, transmission))
				again++
			}
		}
	}
	if len(answered) != int(sent) {
		t.Fatalf("%d of %d reports were answered", len(answered), sent)
	}
	got, err := dial(t, address, goldenClient, goldenPasword).Query(t.Context(), goldenChecksums(t)[1:2])
	wantTotals(t, "all", got, err, Total{sent, sent})
	if got := s.Stats.Reports.Load(); got != int64(sent) {
		t.Errorf("%d reports are counted in the statistics, want %d", got, sent)
	}
}
