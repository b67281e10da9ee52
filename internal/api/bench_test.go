package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// discard is a ResponseWriter that discards everything.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// BenchmarkCheck measures one check of one ready signature, without the network.
func BenchmarkCheck(b *testing.B) {
	s := newServer(b, &prototest.House{}, nil)
	body := strings.NewReader(ready)
	r := httptest.NewRequest("POST", "/v1/check", body)
	r.RemoteAddr, r.Host = local, "127.0.0.1:8420"
	r.Header.Set("Content-Type", requestType)
	closer := io.NopCloser(body)
	w := discard{make(http.Header)}
	b.ReportAllocs()
	for b.Loop() {
		body.Reset(ready)
		r.Body = closer
		clear(w.h)
		s.ServeHTTP(w, r)
	}
}
