package pyzor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	digests "github.com/bulkhead-mail/bulkhead/digest/pyzor"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestUnlisted: a report of a digest that may not be listed is refused. Each request learns this of
// its own digests, even if the digests of several requests are counted together.
func TestUnlisted(t *testing.T) {
	hex := func(name string) string { return strings.Repeat("0", 40-len(name)) + name }
	house := &prototest.House{White: map[bulkhead.Signature]bool{digest(t, hex("1")): true, digest(t, hex("2")): true}}
	s := &Server{Clearinghouse: house, Anonymous: Ops()}
	conn := dial(t, start(t, s, "127.0.0.1:0"))
	conn.SetDeadline(time.Now().Add(time.Minute))
	for _, tt := range []struct{ op, requests, want string }{ // requests that are sent together
		{"report", "1", "422"},
		{"report", "3", "200"},
		{"report", "1 3 2 4", "422 200 422 200"},
		{"report", "1,2 1,3 5", "422 200 200"},
		{"report", "1,1 6,6", "422 200"},
		{"report", "1,1,7", "200"},
		{"report", "empty strange empty,strange empty,8", "422 200 422 200"},
		{"whitelist", "1 3", "200 200"},
	} {
		requests, want := strings.Fields(tt.requests), strings.Fields(tt.want)
		for i, all := range requests {
			request := fmt.Sprintf("Op: %s\nThread: %d\nPV: 2.1\n", tt.op, 2000+i)
			for name := range strings.SplitSeq(all, ",") {
				if name == "empty" {
					name = digests.Empty
				} else if name != "strange" {
					name = hex(name)
				}
				request += "Op-Digest: " + name + "\n"
			}
			if _, err := conn.Write([]byte(request + "\n")); err != nil {
				t.Fatal(err)
			}
		}
		buf := make([]byte, maxDatagram)
		for range requests {
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatalf("%s %s: %v", tt.op, tt.requests, err)
			}
			r, err := ParseReply(buf[:n])
			if err != nil {
				t.Fatal(err)
			}
			var i int
			if fmt.Sscan(r.Thread, &i); fmt.Sprint(r.Code) != want[i-2000] {
				t.Errorf("%s %s: request %d is answered %d, want %s", tt.op, tt.requests, i-2000, r.Code, want[i-2000])
			}
		}
	}
	for _, r := range house.Reports() {
		for _, sig := range r.Signatures {
			if empty(&sig) {
				t.Error("the digest of nothing was counted")
			}
		}
	}
	if err := (&Reply{Code: 422}).Err(); !errors.Is(err, bulkhead.ErrForbidden) {
		t.Errorf("the client says %v", err)
	}
}

// TestUnlistedTogether: of the digests counted in one call, exactly the ones that may not be listed
// are refused.
func TestUnlistedTogether(t *testing.T) {
	one, two, three := digest(t, d1), digest(t, d2), digest(t, strings.Repeat("3", 40))
	s := &Server{Clearinghouse: &prototest.House{White: map[bulkhead.Signature]bool{two: true}}}
	s.prepare()
	for _, tt := range []struct {
		vote  bulkhead.Vote
		sigs  []bulkhead.Signature
		often map[bulkhead.Signature]uint32
		want  string
	}{
		{bulkhead.Spam, []bulkhead.Signature{one, two, three}, nil, fmt.Sprint([]bulkhead.Signature{two})},
		{bulkhead.Spam, []bulkhead.Signature{one, three}, nil, "[]"},
		{bulkhead.Spam, []bulkhead.Signature{one}, map[bulkhead.Signature]uint32{two: 3},
			fmt.Sprint([]bulkhead.Signature{two})},
		{bulkhead.Ham, []bulkhead.Signature{one, two}, nil, "[]"},
	} {
		box := &ballot{report: bulkhead.Report{Signatures: tt.sigs, Vote: tt.vote}, often: tt.often}
		unlisted, err := s.count(t.Context(), box)
		if err != nil || fmt.Sprint(unlisted) != tt.want {
			t.Errorf("%v of %v and %v: %v, %v; want %s", tt.vote, tt.sigs, tt.often, unlisted, err, tt.want)
		}
	}
	if n := s.Stats.Reports.Load(); n != 5 {
		t.Errorf("%d reports counted, want 5", n)
	}
}
