package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// sizing is an API that answers /v1/size and records the question.
type sizing struct{ asked string }

func (s *sizing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/size" {
		fake{}.ServeHTTP(w, r)
		return
	}
	if s.asked = r.URL.Query().Encode(); strings.Contains(s.asked, "signatures=99") {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"title":"Bad Request","status":400,"detail":"<too> many"}`)
		return
	}
	io.WriteString(w,
		`{"tally":{"generation":"24h","keep":7,"signatures":1234567,"capacity":2000000,"generation_bytes":1048576,
			"bytes":2097152,"unseen_shown":0.001,"count_wrong":0.0001,"bulk_wrong":1e-9},
		"blocklist":{"generation":"168h","keep":8,"signatures":10,"capacity":20,
			"generation_bytes":3,"bytes":4,"unseen_shown":1e-6,"hidden":1e-7},
		"memory_bytes":5368709120,"disk_bytes":6442450944,"peer_bytes_a_day":{"least":1024,"most":2048}}`)
}

// TestSizes: the form on the page Storage sends its values to the API, and shows the answer or the
// mistake next to it.
func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		query, asked string
		says         []string
	}{
		{"", "", []string{`name="signatures"`, `name="list_error"`}},
		{"?signatures=&listed=", "", []string{`name="signatures"`}},
		{"?signatures=+5+&listed=&count_error=&tally_keep=", "signatures=5",
			[]string{"1\u202f234\u202f567", "7 × 24h", "8 × 168h", "1 in 10\u202f000", "1 in 1.0 · 10⁷", "5.0 GiB", "6.0 GiB",
				"1.0 KiB to 2.0 KiB"}},
		{"?signatures=5&listed=0&count_error=1e-2&list_error=0.1&tally_keep=2&blocklist_keep=3",
			"blocklist_keep=3&count_error=0.01&list_error=0.1&listed=0&signatures=5&tally_keep=2", []string{`value="1e-2"`}},
		{"?signatures=99", "signatures=99", []string{"&lt;too&gt; many", `value="99"`}},
		{"?signatures=many", "", []string{"signatures &#34;many&#34; is not a number"}},
		{"?signatures=0", "", []string{"is not a number that is possible"}},
		{"?signatures=5&listed=-1", "", []string{"listed &#34;-1&#34;"}},
		{"?signatures=5&count_error=%3Cb%3E", "", []string{"count_error &#34;&lt;b&gt;&#34;"}},
		{"?signatures=5&list_error=0", "", []string{"list_error"}},
		{"?signatures=5&tally_keep=99999999999", "", []string{"tally_keep"}},
		{"?signatures=5&blocklist_keep=x", "", []string{"blocklist_keep"}},
	} {
		api := new(sizing)
		w := httptest.NewRecorder()
		New(source{}, api).ServeHTTP(w, httptest.NewRequest("GET", "/storage"+tt.query, nil))
		if api.asked != tt.asked || w.Code != 200 {
			t.Errorf("%s: %d, asked for %q, want %q", tt.query, w.Code, api.asked, tt.asked)
		}
		for _, says := range tt.says {
			if !strings.Contains(w.Body.String(), says) {
				t.Errorf("%s: no %q in %s", tt.query, says, w.Body)
			}
		}
	}
}
