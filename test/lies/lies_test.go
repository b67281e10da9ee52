package lies

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// columns are the lies of prototest, in their order.
const columns = "nothing, spam, doubtful spam, revoked, counts, full, " +
	"malformed, unauthorised, forbidden, over limit, geometry, read-only, fault, late"

// table says what clients of each door should make of each lie, a word for each. Where a
// protocol has no word for a refusal, or a client none for its reason, it may try again.
//
// A listed signature is spam. Pyzor counts reports, and what was revoked has none. DCC and the
// milter call bulk what is counted often enough. A fuzzy storage treats a digest with as many
// deletes as writes as deleted, and "counts" reports that of every digest. DCC deletes nothing that
// shows this number of deletes.
var table = []struct{ door, operation, want string }{
	{"api", "check", "CSSCBSRRRLRLLL"},
	{"api", "report spam", "TTTTTTRRRLRLLL"},
	{"api", "report ham", "TTTTTTRRRLRLLL"},
	{"api", "revoke", "TTTTTTRRRLRLLL"},
	{"dcc", "check", "CSSCSSLLLLLLLL"},
	{"dcc", "report", "TTTTTTLLLLLLLL"},
	{"dcc", "report spam", "TTTTTTLLLLLLLL"},
	{"dcc", "delete", "TTTTLLLLLLLLLL"},
	{"dccifd", "query", "CSSCSSLLLLLLLL"},
	{"dccifd", "report", "CSSCSSLLLLLLLL"},
	{"dccifd", "report spam", "SSSSSSLLLLLLLL"},
	{"fuzzy", "check", "CSBCCSLRRLLLLL"},
	{"fuzzy", "write", "TTTTTTLRRLLLLL"},
	{"fuzzy", "delete", "TTTTTTLRRLLLLL"},
	{"milter", "pass", "CSSCSSPPPPPPPP"},
	{"milter", "defer", "CSSCSSLLLLLLLL"},
	{"pyzor", "check", "CBBCCBRRRLLLLL"},
	{"pyzor", "report", "TTTTTTRRRLLLLL"},
	{"pyzor", "whitelist", "TTTTTTRRRLLLLL"},
	{"pyzor helper", "check", "CBBCCBNNNNNNNN"},
	{"razor2", "check", "CSSCCSRRRLLLLL"},
	{"razor2", "report", "TTTTTTRRRLLLLL"},
	{"razor2", "revoke", "TTTTTTRRRLLLLL"},
	{"razor helper", "check", "CSSCCSNNNNNNNN"},
}

// TestLies presents each lie to each door. Each door is opened once for each lie and asked twice,
// since a lie must not change it, and it must not remember as done what was refused.
func TestLies(t *testing.T) {
	lies := prototest.Lies()
	var names []string
	for _, lie := range lies {
		names = append(names, lie.Name)
	}
	if got := strings.Join(names, ", "); got != columns {
		t.Fatalf("lies %s, columns %s", got, columns)
	}
	want := make(map[[2]string]string)
	for _, row := range table {
		if len(row.want) != len(lies) {
			t.Fatalf("%s, %s: %d words for %d lies", row.door, row.operation, len(row.want), len(lies))
		}
		want[[2]string{row.door, row.operation}] = row.want
	}
	asked := 0
	for name, open := range doors {
		for i, lie := range lies {
			t.Run(name+", "+lie.Name, func(t *testing.T) {
				liar := &prototest.Liar{Lie: lie}
				for _, op := range open(t, liar) {
					words := want[[2]string{name, op.name}]
					if words == "" {
						t.Fatalf("%s has no row", op.name)
					}
					for range 2 {
						if got := op.do(); got != words[i:i+1] {
							t.Errorf("%s: %q, want %q", op.name, got, words[i:i+1])
						}
					}
					asked++
				}
				if liar.Asked.Load() == 0 {
					t.Error("the clearinghouse was never asked")
				}
			})
		}
	}
	if asked != len(table)*len(lies) {
		t.Errorf("%d operations, want all of %d x %d", asked, len(table), len(lies))
	}
}

// TestRefusedIsNeverTaken checks the table, which was written by hand: an error must never be
// taken for an answer, and what may succeed later must never be refused for good.
func TestRefusedIsNeverTaken(t *testing.T) {
	for _, row := range table {
		for i, lie := range prototest.Lies() {
			word := row.want[i : i+1]
			switch {
			case lie.Err == nil && strings.Contains(refused+silence+passed, word):
				t.Errorf("%s, %s: %s is answered with %s", row.door, row.operation, lie.Name, word)
			case lie.Err != nil && strings.Contains(spam+bulk+clean+taken, word):
				t.Errorf("%s, %s: the error %s is taken for an answer, %s", row.door, row.operation, lie.Name, word)
			case temporary(lie.Err) && word == refused:
				t.Errorf("%s, %s: the error %s refuses for good", row.door, row.operation, lie.Name)
			}
		}
	}
}

func temporary(err error) bool {
	return errors.Is(err, bulkhead.ErrReadOnly) || errors.Is(err, bulkhead.ErrOverLimit) ||
		errors.Is(err, prototest.ErrFault) || errors.Is(err, context.DeadlineExceeded)
}

// TestReasonsTravel checks that every method of a remote node's client returns the reason
// that the node had for a refusal, and none for a fault.
func TestReasonsTravel(t *testing.T) {
	sig := []bulkhead.Signature{bulkhead.MustSignature(bulkhead.Exact, []byte("the ferry to the island"))}
	reasons := []error{bulkhead.ErrMalformed, bulkhead.ErrUnauthorised, bulkhead.ErrForbidden, bulkhead.ErrOverLimit,
		bulkhead.ErrGeometry, bulkhead.ErrReadOnly}
	for _, lie := range prototest.Lies() {
		server := httptest.NewServer(newAPI(t, &prototest.Liar{Lie: lie}))
		t.Cleanup(server.Close)
		c := &client.Client{Server: server.URL, HTTP: server.Client()}
		_, checked := c.Check(t.Context(), bulkhead.Query{Signatures: sig})
		_, reported := c.Report(t.Context(), bulkhead.Report{Signatures: sig})
		for what, err := range map[string]error{
			"check": checked, "report": reported, "count": c.Count(t.Context(), sig, []uint32{1}),
			"look": c.Look(t.Context(), sig, make([]bulkhead.Look, 1), bulkhead.Counts|bulkhead.Judgements),
		} {
			if (err == nil) != (lie.Err == nil) {
				t.Errorf("%s, %s: %v", lie.Name, what, err)
			}
			for _, reason := range reasons {
				// A request that the node had no time for may succeed later.
				late := errors.Is(lie.Err, context.DeadlineExceeded) && reason == bulkhead.ErrReadOnly
				if errors.Is(err, reason) != errors.Is(lie.Err, reason) && !late {
					t.Errorf("%s, %s: %v, is it %q: %v", lie.Name, what, err, reason, errors.Is(err, reason))
				}
			}
		}
	}
}
