package pyzor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/pyzor"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestBallotTakes: votes go into one report only if they are of one reporter, one kind
// and digests that are not in it.
func TestBallotTakes(t *testing.T) {
	number := func(n int) bulkhead.Signature { return digest(t, fmt.Sprintf("%040x", n)) }
	numbers := func(from, to int) (all []bulkhead.Signature) {
		for n := from; n < to; n++ {
			all = append(all, number(n))
		}
		return all
	}
	ana, bob := bulkhead.Reporter{Account: "ana"}, bulkhead.Reporter{Account: "bob"}
	of := func(sigs []bulkhead.Signature) *ballot {
		return &ballot{report: bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam, Reporter: ana}}
	}
	often := of(numbers(1, 3))
	often.often = map[bulkhead.Signature]uint32{number(9): 2}
	for name, tt := range map[string]struct {
		box  *ballot
		who  bulkhead.Reporter
		vote bulkhead.Vote
		sigs []bulkhead.Signature
		want bool
	}{
		"others":               {of(numbers(1, 3)), ana, bulkhead.Spam, numbers(3, 5), true},
		"one that is in it":    {of(numbers(1, 3)), ana, bulkhead.Spam, numbers(2, 5), false},
		"of somebody else":     {of(numbers(1, 3)), bob, bulkhead.Spam, numbers(3, 5), false},
		"of another kind":      {of(numbers(1, 3)), ana, bulkhead.Ham, numbers(3, 5), false},
		"beside some repeated": {often, ana, bulkhead.Spam, numbers(3, 5), false},
		"up to the limit":      {of(numbers(0, maxBallot-1)), ana, bulkhead.Spam, numbers(maxBallot, maxBallot+1), true},
		"beyond the limit":     {of(numbers(0, maxBallot-1)), ana, bulkhead.Spam, numbers(maxBallot, maxBallot+2), false},
	} {
		if got := tt.box.takes(tt.who, tt.vote, tt.sigs); got != tt.want {
			t.Errorf("%s: taken %v, want %v", name, got, tt.want)
		}
	}
}

// bomb panics at every report.
type bomb struct{ *prototest.House }

func (bomb) Report(context.Context, bulkhead.Report) (bulkhead.Receipt, error) { panic("boom") }

// TestVotePanics: a panic of the clearinghouse costs the answers of its ballot.
func TestVotePanics(t *testing.T) {
	s := &Server{Clearinghouse: bomb{&prototest.House{}}}
	c := newClient(t, start(t, s, "127.0.0.1:0"), Options{})
	for range 3 {
		if r, err := c.Do(t.Context(), OpReport, digest(t, d1)); r == nil || r.Code != 500 {
			t.Fatalf("report: %+v, %v, want code 500", r, err)
		}
	}
	if _, err := c.Do(t.Context(), OpCheck, digest(t, d1)); err != nil {
		t.Errorf("a check after it: %v", err)
	}
	if n := s.Stats.Faults.Load(); n != 3 || s.Stats.Reports.Load() != 0 {
		t.Errorf("%d faults, %d reports; want 3, 0", n, s.Stats.Reports.Load())
	}
}

// TestFirstHeadersCount: the first of repeated headers is read, and answers and refusals are
// counted.
func TestFirstHeadersCount(t *testing.T) {
	s := &Server{Clearinghouse: &prototest.House{}, Exempt: door.Loopback()}
	conn := dial(t, start(t, s, "127.0.0.1:0"))
	for _, tt := range []struct{ request, want string }{
		{"Op: ping\nThread: 30051\nPV: 2.1\nPV: 3.0\n\n", "Code: 200"},
		{"Op: ping\nThread: 30051\nPV: 3.0\nPV: 2.1\n\n", "Code: 505"},
		{"Op: ping\nOp: check\nThread: 30051\nPV: 2.1\n\n", "Code: 200"},
		{"Op: ping\nThread: 30051\nPV: 2.1\nUser: anonymous\nUser: nobody\n\n", "Code: 200"},
		{"Op: ping\nThread: 30051\nPV: 2.1\nUser: nobody\nUser: anonymous\n\n", "Code: 401"},
	} {
		if got := exchange(t, conn, tt.request); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%q: %q, want %s", tt.request, got, tt.want)
		}
	}
	// exchange ends with a ping of its own.
	if pings, refused := s.Stats.Pings.Load(), s.Stats.Refused.Load(); pings != 8 || refused != 2 {
		t.Errorf("%d pings, %d refused; want 8, 2", pings, refused)
	}
}

// TestHelperReads: the helper judges the whole mail, and gives no answer if it has no verdict.
func TestHelperReads(t *testing.T) {
	mail := []byte("Subject: x\n\nthis is the text of the mail\nwith a second line of it\n")
	sigs, err := digests.Signatures(t.Context(), mail)
	if err != nil {
		t.Fatal(err)
	}
	text := bulkhead.MustSignature(bulkhead.Exact, []byte("the text"))
	reported := func(sigs ...bulkhead.Signature) *prototest.House {
		house := new(prototest.House)
		if _, err := house.Report(t.Context(), bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam}); err != nil {
			t.Fatal(err)
		}
		return house
	}
	white := reported(sigs...)
	white.White = map[bulkhead.Signature]bool{text: true}
	fault := errors.New("disk on fire")
	for _, tt := range []struct {
		name  string
		house bulkhead.Clearinghouse
		err   error
		spam  int64
		fails bool
	}{
		{"its digest", reported(sigs...), nil, 5, false},
		{"its text", reported(text), nil, 5, false},
		{"unknown", new(prototest.House), nil, 0, false},
		{"white", white, nil, 0, false},
		{"not read", reported(sigs...), bulkhead.ErrMalformed, 5, false},
		{"not read, and the text reported", reported(text), bulkhead.ErrMalformed, 0, false},
		{"reading fails", reported(sigs...), fault, 0, true},
		{"clearinghouse fails", &prototest.House{Err: fault}, nil, 0, true},
	} {
		h := &Helper{Clearinghouse: tt.house, Listed: 5,
			Read: func(context.Context, []byte) ([]bulkhead.Signature, bulkhead.Source, error) {
				if tt.err != nil {
					return nil, bulkhead.Source{}, tt.err
				}
				return []bulkhead.Signature{text, sigs[0]}, bulkhead.Source{}, nil
			}}
		spam, _, err := h.look(t.Context(), mail, bulkhead.Reporter{})
		if spam != tt.spam || (err != nil) != tt.fails {
			t.Errorf("%s: %d spam, %v; want %d, an error: %v", tt.name, spam, err, tt.spam, tt.fails)
		}
	}
}

// TestClientGivesUp: the client waits for its timeout, and at most until its context ends.
func TestClientGivesUp(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c := newClient(t, silent.LocalAddr().String(), Options{Timeout: 1})
	if _, err := c.Do(t.Context(), OpPing); err == nil {
		t.Error("a ping that nobody answers succeeds")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c = newClient(t, silent.LocalAddr().String(), Options{})
	if _, err := c.Do(ended, OpPing); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
	// The context ends while the client waits for an answer.
	c = newClient(t, silent.LocalAddr().String(), Options{Timeout: time.Hour})
	ended, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := c.Do(ended, OpPing)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the end of its context: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the client waits longer than its context")
	}
}
