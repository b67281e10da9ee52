package manage

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestManyWithOneMessageID checks that a vote by Message-ID is not on the mail of others when the voter's own message
// is beyond those that are read.
func TestManyWithOneMessageID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	book, err := logbook.Open(path, logbook.Options{MaxBytes: 256 << 20, MaxAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	house := logbook.NewHouse(bulkhead.CounterOf(&prototest.House{}), book, "http")
	const first, last = "ann@example.com", "bob@example.com"
	text := func(i int) bulkhead.Signature {
		return bulkhead.MustSignature(bulkhead.Exact, binary.BigEndian.AppendUint32(nil, uint32(i)))
	}
	deliver := func(i int, to string) {
		t.Helper()
		if _, err := house.Report(t.Context(), bulkhead.Report{Signatures: []bulkhead.Signature{text(i)}, Count: 1,
			Recipients: []string{to}, Source: bulkhead.Source{MessageID: "one@example.com"}}); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 0 {
			book.Flush()
		}
	}
	deliver(0, first)
	for i := range maxWithID {
		deliver(1+i, last)
	}
	book.Flush()
	if lost := book.Stats.Lost.Load(); lost > 0 {
		t.Fatalf("%d entries are lost", lost)
	}
	h := &History{Book: book, Judge: &prototest.House{},
		Space: func(bulkhead.Reporter) (string, bool) { return "", true }}
	for user, want := range map[string]bool{first: false, last: true, "": true} {
		sigs, err := h.Remembered(t.Context(), bulkhead.Reporter{User: user}, "one@example.com", 0)
		if got := err == nil && len(sigs) > 0; got != want || !want && !errors.Is(err, api.ErrNotRemembered) {
			t.Errorf("vote of %q: %v, %v, want a message: %v", user, sigs, err, want)
		}
	}
}
