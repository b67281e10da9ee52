package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestSize: a question arrives as asked, a value out of range is refused before, and a question
// that the node cannot answer is the client's mistake.
func TestSize(t *testing.T) {
	var asked admin.SizeQuestion
	s := newServer(t, &prototest.House{}, func(o *Options) {
		o.Sizes = func(of admin.SizeQuestion) (admin.Sizes, error) {
			asked = of
			if of.Signatures == 99 {
				return admin.Sizes{}, errors.New("too many of them")
			}
			return admin.Sizes{Memory: 7 * of.Signatures, Blocklist: admin.BookSizes{Keep: 8, Hidden: 1e-7}}, nil
		}
	})
	two := uint64(2)
	for _, tt := range []struct {
		query string
		want  admin.SizeQuestion
		code  int
		says  string
	}{
		{"signatures=5", admin.SizeQuestion{Signatures: 5}, 200, `"memory_bytes":35`},
		{"signatures=5&listed=2&count_error=1e-3&list_error=0.5&tally_keep=3&blocklist_keep=4",
			admin.SizeQuestion{Signatures: 5, Listed: &two, CountError: 1e-3, ListError: 0.5, TallyKeep: 3, BlocklistKeep: 4},
			200, `"hidden":1e-7`},
		{"signatures=5&listed=0", admin.SizeQuestion{Signatures: 5, Listed: new(uint64)}, 200, `"keep":8`},
		{"signatures=99", admin.SizeQuestion{Signatures: 99}, 400, "too many of them"},
		{"", admin.SizeQuestion{}, 400, "no signatures"},
		{"listed=2", admin.SizeQuestion{}, 400, "no signatures"},
		{"signatures=0", admin.SizeQuestion{}, 400, "signatures"},
		{"signatures=-1", admin.SizeQuestion{}, 400, "signatures"},
		{"signatures=1e6", admin.SizeQuestion{}, 400, "signatures"},
		{"signatures=4294967296", admin.SizeQuestion{}, 400, "signatures"},
		{"signatures=5&signatures=6", admin.SizeQuestion{}, 400, "2 times"},
		{"signatures=5&count_error=0", admin.SizeQuestion{}, 400, "count_error"},
		{"signatures=5&count_error=1", admin.SizeQuestion{}, 400, "count_error"},
		{"signatures=5&list_error=NaN", admin.SizeQuestion{}, 400, "list_error"},
		{"signatures=5&list_error=-Inf", admin.SizeQuestion{}, 400, "list_error"},
		{"signatures=5&list_error=x", admin.SizeQuestion{}, 400, "list_error"},
		{"signatures=5&tally_keep=0", admin.SizeQuestion{}, 400, "tally_keep"},
		{"signatures=5&blocklist_keep=1001", admin.SizeQuestion{}, 400, "blocklist_keep"},
		{"signatures=5&other=1", admin.SizeQuestion{}, 400, "other"},
	} {
		asked = admin.SizeQuestion{}
		w := send(s, local, "GET", "/v1/size?"+tt.query, "", "")
		if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.says) {
			t.Errorf("%s: %d %s, want %d with %q", tt.query, w.Code, w.Body, tt.code, tt.says)
		}
		if (asked.Listed == nil) != (tt.want.Listed == nil) || asked.Listed != nil && *asked.Listed != *tt.want.Listed {
			t.Errorf("%s: listed %v, want %v", tt.query, asked.Listed, tt.want.Listed)
		}
		if asked.Listed = tt.want.Listed; asked != tt.want {
			t.Errorf("%s: asked for %+v, want %+v", tt.query, asked, tt.want)
		}
	}
	if w := send(s, local, "POST", "/v1/size", requestType, "{}"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}
